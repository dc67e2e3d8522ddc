// A model as a file: what is saved is read back, and what does not fit is refused.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gradus/gradus.hpp>
#include <gradus/run/checkpoint.hpp>
#include <gradus/run/model_file.hpp>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"
#include "../../support/scratch_folder.hpp"
#include "../../support/seed.hpp"

namespace {

namespace gr = gradus;
using gradus_test::message_of;

template <class X, gr::index_t Width = 5>
struct net_of {
  gr::nn::linear<X, 3, Width> first;
  gr::nn::layer_norm<X, Width> norm;
  GRADUS_MEMBERS(first, norm)
};
using plain = gr::on<gr::cpu>;

template <class Model>
std::vector<float> values_of(const Model& net) {
  std::vector<float> all;
  gr::visit_params(net, [&](const auto& p) {
    for (const auto v : p.value().values()) all.push_back(static_cast<float>(v));
  });
  return all;
}

}  // namespace

TEST_CASE("a model that is saved is loaded with the same bits, into one that is not initialised") {
  const gradus_test::scratch_folder f;
  gradus_test::workplace place;
  net_of<plain> net, loaded;
  gr::init(net, place.ctx, gr::normal_init{.seed = gradus_test::fresh_seed()});
  gr::save(net, f.path / "net", {{"model", "a test"}});
  CHECK(gr::safetensors_file(f.path / "net").metadata().at("model") == "a test");
  gr::load(loaded, place.ctx, f.path / "net");
  CHECK(values_of(loaded) == values_of(net));
}

TEST_CASE("a part of a model is saved by a pattern or a predicate, and loaded into a model that has the rest") {
  const gradus_test::scratch_folder f;
  gradus_test::workplace place;
  net_of<plain> net, loaded;
  gr::init(net, place.ctx, gr::normal_init{.seed = gradus_test::fresh_seed()});
  gr::init(loaded, place.ctx, gr::normal_init{.seed = gradus_test::fresh_seed()});
  gr::save(net, f.path / "first", "first.*", {{"part", "first"}});
  gr::save(net, f.path / "biases", [](std::string_view name) { return name.ends_with("bias"); });
  using names = std::vector<std::string>;
  const auto in = [&](const char* file) {
    names all;
    const gr::safetensors_file opened(f.path / file);
    for (const auto& [name, entry] : opened.entries()) all.push_back(name);
    return all;
  };
  CHECK(in("first") == names{"first.bias", "first.weight"});
  CHECK(in("biases") == names{"first.bias", "norm.bias"});
  CHECK(gr::safetensors_file(f.path / "first").metadata().at("part") == "first");
  const auto report = gr::load(loaded, place.ctx, f.path / "first", {.strict = false});
  CHECK(report.missing == names{"norm.weight", "norm.bias"});
  CHECK(values_of(loaded.first) == values_of(net.first));
  CHECK(message_of([&] { gr::save(net, f.path / "none", "last.*"); }) ==
        "save(model, path, names): 'last.*' is the name of no parameter; the first one is 'first.weight'");
  CHECK(!std::filesystem::exists(f.path / "none"));
}

TEST_CASE("a writer takes tensors with their shapes, bounded ones and bool too, and shares them until it writes") {
  const gradus_test::scratch_folder f;
  gradus_test::workplace place;
  gr::safetensors_writer writer;
  {
    const auto x = gr::from_values<gr::bf16, gr::shape<2, 1>>(place.ctx, {gr::bf16(1.5f), gr::bf16(-2.0f)});
    writer.add("x", x);
    writer.add("positive", x > 0);
    writer.add("rows", gr::full<std::int64_t, gr::shape<gr::upto<9>, 2>>(place.ctx, 7, {3}));
  }
  writer.write(f.path / "file");
  gr::safetensors_file file(f.path / "file");
  CHECK(file.entry("x").shape == std::vector<std::size_t>{2, 1});
  CHECK(file.read<gr::bf16>("x") == std::vector<gr::bf16>{gr::bf16(1.5f), gr::bf16(-2.0f)});
  CHECK(file.entry("positive").dtype == "BOOL");
  CHECK(file.entry("rows").shape == std::vector<std::size_t>{3, 2});
  CHECK(file.read<std::int64_t>("rows") == std::vector<std::int64_t>(6, 7));
}

TEST_CASE("a model is loaded from another floating-point type, rounded to nearest") {
  const gradus_test::scratch_folder f;
  gradus_test::workplace place;
  net_of<plain> net;
  gr::init(net, place.ctx, gr::normal_init{.seed = gradus_test::fresh_seed()});
  gr::save(net, f.path / "net");
  net_of<gr::on<gr::cpu, gr::bf16_pure>> low;
  gr::load(low, place.ctx, f.path / "net");
  const auto exact = values_of(net), rounded = values_of(low);
  REQUIRE(rounded.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i)
    CHECK(rounded[i] == static_cast<float>(static_cast<gr::bf16>(exact[i])));
}

TEST_CASE("a checkpoint is read as a model") {
  const gradus_test::scratch_folder f;
  gradus_test::workplace place;
  net_of<plain> net, loaded;
  gr::init(net, place.ctx, gr::normal_init{.seed = gradus_test::fresh_seed()});
  gr::adamw optimizer{net, {}};
  gr::write_checkpoint(f.path / "run", place.ctx, net, optimizer, {});
  gr::load(loaded, place.ctx, f.path / "run");
  CHECK(values_of(loaded) == values_of(net));
}

TEST_CASE("a file of another model, and a damaged one, is refused by name") {
  const gradus_test::scratch_folder f;
  gradus_test::workplace place;
  net_of<plain> net;
  gr::init(net, place.ctx, gr::normal_init{.seed = 1});
  gr::save(net, f.path / "net");
  net_of<plain, 6> wider;
  const std::string shape = message_of([&] { gr::load(wider, place.ctx, f.path / "net"); });
  CHECK(shape.find("first.weight") != std::string::npos);
  struct {
    gr::nn::linear<plain, 3, 5> other;
    GRADUS_MEMBERS(other)
  } named;
  const std::string missing = message_of([&] { gr::load(named, place.ctx, f.path / "net"); });
  CHECK(missing.find("other.weight") != std::string::npos);
  {
    std::fstream file(f.path / "net", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('x');
  }
  CHECK(message_of([&] { gr::load(net, place.ctx, f.path / "net"); }).find("checksum") != std::string::npos);
}

namespace {
// As net_of, with a norm of another width, a head and a state.
template <class X>
struct related {
  gr::nn::linear<X, 3, 5> first;
  gr::nn::layer_norm<X, 4> norm;
  gr::nn::linear<X, 5, 2> head;
  gr::state<X, 5> mean;
  GRADUS_MEMBERS(first, norm, head, mean)
};
}  // namespace

TEST_CASE("a partial load takes what fits by name and shape, and reports the rest; a strict one changes nothing") {
  const gradus_test::scratch_folder f;
  gradus_test::workplace place;
  net_of<plain> net;
  related<plain> model;
  gr::init(net, place.ctx, gr::normal_init{.seed = 1});
  gr::init(model, place.ctx, gr::normal_init{.seed = 3});
  gr::save(net, f.path / "net");
  const auto before = values_of(model);
  CHECK(message_of([&] { gr::load(model, place.ctx, f.path / "net"); }).find("'norm.weight' has the shape [5] where") !=
        std::string::npos);
  CHECK(values_of(model) == before);

  const gr::load_report report = gr::load(model, place.ctx, f.path / "net", {.strict = false});
  CHECK_FALSE(report.is_complete());
  CHECK(report.to_string() ==
        "loaded: first.weight, first.bias\n"
        "missing in the file: head.weight, head.bias, mean\n"
        "of another shape in the file: norm.weight, norm.bias\n");
  CHECK(gr::to_host(model.first.weight.value()) == gr::to_host(net.first.weight.value()));
  CHECK(gr::to_host(model.head.weight.value()) ==
        std::vector<float>(before.begin() + 28, before.begin() + 38));  // after first and norm
  gr::save(model, f.path / "more");
  gr::nn::linear<plain, 3, 5> part;
  const gr::load_report rest = gr::load(part, place.ctx, f.path / "more", {.strict = false});
  CHECK(rest.loaded.empty());  // its paths begin with weight, not with first
  CHECK(rest.left.size() == 7);

  gr::safetensors_writer ids;
  const std::vector<std::int32_t> three(3);
  ids.add("weight", std::vector<std::size_t>{3}, std::span(three));
  ids.write(f.path / "ids");
  gr::nn::rms_norm<plain, 3> norm;
  CHECK(message_of([&] {
          gr::load(norm, place.ctx, f.path / "ids", {.strict = false});
        }).find("which is not a floating-point type") != std::string::npos);
  CHECK_FALSE(norm.weight.value());
}

TEST_CASE("states are in model files") {
  const gradus_test::scratch_folder f;
  gradus_test::workplace place;
  related<plain> model, loaded;
  gr::init(model, place.ctx, gr::normal_init{.seed = 3});
  model.mean.edit().values()[1] = 0.5f;
  gr::save(model, f.path / "net");
  CHECK(gr::load(loaded, place.ctx, f.path / "net").is_complete());
  CHECK(gr::to_host(loaded.mean.value()) == std::vector<float>{0, 0.5f, 0, 0, 0});
  CHECK(place.stats.of(gr::category::state).live == 2 * 5 * sizeof(float));
  loaded.mean.edit().values()[4] = std::numeric_limits<float>::infinity();
  CHECK(gr::find_not_finite(loaded) == "mean");
}

TEST_CASE("the first parameter that is not finite is named") {
  gradus_test::workplace place;
  net_of<plain> net;
  gr::init(net, place.ctx, gr::normal_init{.seed = 1});
  CHECK(gr::find_not_finite(net).empty());
  net.norm.weight.edit().values()[4] = std::numeric_limits<float>::infinity();
  CHECK(gr::find_not_finite(net) == "norm.weight");
  net.first.bias.edit().values()[0] = std::nanf("");
  CHECK(gr::find_not_finite(net) == "first.bias");
}
