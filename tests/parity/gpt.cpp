// The GPT of examples/gpt against PyTorch: odd sizes (2 layers, 3 heads, width 39, context 13, vocabulary 61), the same
// parameters, batches and schedule. tests/parity/make_fixtures.py recorded the figures.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fixture.hpp"
#include "gpt/model.hpp"

namespace gr = gradus;

namespace {

constexpr gpt::config odd{2, 3, 39, 13, 61};
constexpr gr::index_t batch = 3;
using ids = gr::tensor<std::int32_t, gr::shape<batch, odd.context>>;

const gradus_test::fixture& recorded() {
  static const gradus_test::fixture f(GRADUS_TEST_DATA "/parity/gpt.safetensors");
  return f;
}

std::string replaced(std::string name, const std::string& from, const std::string& to) {
  const auto at = name.find(from);
  return at == std::string::npos ? name : name.replace(at, from.size(), to);
}

// Our name of a parameter -> the name GPT-2's checkpoints use.
std::string hugging_face_name(std::string name) {
  if (name == "positions") return "wpe.weight";
  name = replaced(name, "tokens.", "wte.");
  name = replaced(name, "blocks.", "h.");
  name = replaced(name, "norm1", "ln_1");
  name = replaced(name, "norm2", "ln_2");
  name = replaced(name, "attention.qkv", "attn.c_attn");
  name = replaced(name, "attention.projection", "attn.c_proj");
  name = replaced(name, "mlp.up", "mlp.c_fc");
  name = replaced(name, "mlp.down", "mlp.c_proj");
  if (name.rfind("norm.", 0) == 0) name = "ln_f" + name.substr(4);
  return name;
}

template <class Model>
void load(Model& net, gr::context<gr::cpu>& ctx) {
  gr::for_each_param(net, [&](std::string_view name, auto& p) {
    using P = std::remove_reference_t<decltype(p)>;
    using T = typename P::value_type;
    const std::vector<double> values = recorded().values("param." + hugging_face_name(std::string(name)));
    auto t = gr::zeros<T, typename P::shape>(ctx);  // rows of padding stay zero
    REQUIRE(values.size() <= t.size);
    for (std::size_t i = 0; i < values.size(); ++i) t.data()[i] = static_cast<T>(values[i]);
    p.set(std::move(t));
  });
}

ids batch_of(gr::context<gr::cpu>& ctx, const std::string& name, std::size_t step) {
  const std::vector<double> all = recorded().values(name);
  ids t(ctx);
  for (std::size_t i = 0; i < ids::size; ++i) t.data()[i] = static_cast<std::int32_t>(all[step * ids::size + i]);
  return t;
}

template <class Precision>
void check_first_step(const std::string& dtype, double loss_tolerance, double gradient_tolerance) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gpt::model<gr::on<gr::cpu, Precision>, odd> net;
  load(net, ctx);
  gr::tape tape{ctx};
  const auto loss = net.loss(tape.watch(batch_of(ctx, "tokens", 0)), batch_of(ctx, "targets", 0));
  gr::backward(loss);
  CHECK(static_cast<double>(gr::item(loss.value())) ==
        doctest::Approx(recorded().values("loss." + dtype)[0]).epsilon(loss_tolerance));
  CHECK(gr::item(net.loss(batch_of(ctx, "tokens", 0), batch_of(ctx, "targets", 0))) == gr::item(loss.value()));
  gr::for_each_param(net, [&](std::string_view name, auto& p) {
    CAPTURE(name);
    const std::vector<double> expected =
        recorded().values("grad." + dtype + "." + hugging_face_name(std::string(name)));
    double largest = 0;
    for (const double e : expected) largest = std::max(largest, std::abs(e));
    double worst = 0;
    REQUIRE(p.has_gradient());
    for (std::size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(p.gradient_data()[i]) - expected[i]));
    for (std::size_t i = expected.size(); i < p.size(); ++i) CHECK(p.gradient_data()[i] == 0);  // padding
    CHECK(worst / largest < gradient_tolerance);
  });
}

template <class Precision>
void check_curve(const std::string& dtype, double tolerance, bool final_values) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gpt::model<gr::on<gr::cpu, Precision>, odd> net;
  load(net, ctx);
  gr::adamw opt{net, {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1}};
  const gr::warmup_cosine rate{.peak = 3e-3, .low = 3e-4, .warmup = 5, .total = 20};
  gr::tape tape{ctx};
  const auto curve = recorded().values("curve." + dtype);
  const auto norms = recorded().values("norm." + dtype);
  const auto rates = recorded().values("lr");
  REQUIRE(curve.size() == 20);
  for (std::size_t step = 0; step < curve.size(); ++step) {
    CAPTURE(step);
    const auto loss = net.loss(tape.watch(batch_of(ctx, "tokens", step)), batch_of(ctx, "targets", step));
    gr::backward(loss);
    CHECK(std::abs(static_cast<double>(gr::item(loss.value())) - curve[step]) < tolerance * curve[step]);
    CHECK(std::abs(opt.clip(ctx, 1.0).value() - norms[step]) < tolerance * norms[step] * 10);
    opt.options.lr = rate(static_cast<double>(step));
    CHECK(opt.options.lr == doctest::Approx(rates[step]).epsilon(1e-12));
    opt.step(ctx);
  }
  if (!final_values) return;
  gr::for_each_param(net, [&](std::string_view name, auto& p) {
    CAPTURE(name);
    const auto expected = recorded().values("final." + dtype + "." + hugging_face_name(std::string(name)));
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(p.value().data()[i]) - expected[i]));
    CHECK(worst < 1e-7);
  });
}

// Norms of differences: in 16 bits two programs that round at other places agree in the large, not element by element.
template <class Precision>
void check_autocast(const std::string& dtype, double loss_tolerance, double gradient_tolerance) {
  const gradus_test::fixture autocast(GRADUS_TEST_DATA "/parity/gpt_autocast.safetensors");
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gpt::model<gr::on<gr::cpu, Precision>, odd> net;
  load(net, ctx);
  gr::tape tape{ctx};
  const auto loss = net.loss(tape.watch(batch_of(ctx, "tokens", 0)), batch_of(ctx, "targets", 0));
  gr::backward(loss);
  CHECK(static_cast<double>(gr::item(loss.value())) ==
        doctest::Approx(autocast.values("loss." + dtype)[0]).epsilon(loss_tolerance));
  // Inference computes what training does.
  CHECK(gr::item(net.loss(batch_of(ctx, "tokens", 0), batch_of(ctx, "targets", 0))) == gr::item(loss.value()));
  gr::for_each_param(net, [&](std::string_view name, auto& p) {
    CAPTURE(name);
    const auto expected = autocast.values("grad." + dtype + "." + hugging_face_name(std::string(name)));
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(static_cast<double>(p.gradient_data()[i]) - expected[i], 2);
      size += std::pow(expected[i], 2);
    }
    for (std::size_t i = expected.size(); i < p.size(); ++i) CHECK(p.gradient_data()[i] == 0);  // padding
    CHECK(std::sqrt(difference / size) < gradient_tolerance);
  });
}

}  // namespace

TEST_CASE("a GPT of odd sizes has PyTorch's loss and gradients under autocast in bfloat16") {
  check_autocast<gr::bf16_mixed>("bf16", 5e-3, 2e-2);
}
TEST_CASE("a GPT of odd sizes has nearly that loss and those gradients with a residual stream in bfloat16") {
  check_autocast<gr::bf16_stream>("bf16", 5e-3, 3e-2);
}
TEST_CASE("a GPT of odd sizes has PyTorch's loss and gradients under autocast in float16") {
  check_autocast<gr::fp16_mixed>("f16", 1e-3, 5e-3);
}
TEST_CASE("a GPT of odd sizes has PyTorch's loss and gradients in float64") {
  check_first_step<gr::fp64>("f64", 1e-12, 1e-9);
}
TEST_CASE("a GPT of odd sizes has PyTorch's loss and gradients in float32") {
  check_first_step<gr::fp32>("f32", 1e-6, 1e-5);
}
TEST_CASE("twenty AdamW steps with clipping and cosine follow PyTorch's curve in float64") {
  check_curve<gr::fp64>("f64", 1e-9, true);
}
TEST_CASE("twenty AdamW steps with clipping and cosine follow PyTorch's curve in float32") {
  check_curve<gr::fp32>("f32", 1e-5, false);
}
