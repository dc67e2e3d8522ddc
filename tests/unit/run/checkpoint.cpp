// A run that is resumed from a checkpoint continues as if it had not been interrupted, bit for bit.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gradus/gradus.hpp>
#include <gradus/run/checkpoint.hpp>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"
#include "../../support/scratch_folder.hpp"

namespace gr = gradus;
using gradus_test::message_of;
using gradus_test::scratch_folder;
using gradus_test::workplace;

namespace {

template <class X, gr::index_t Width = 9>
struct net {
  gr::param<X, 5, Width> first;
  gr::param<X, Width> bias;
  gr::param<X, Width, 3> second;
  GRADUS_MEMBERS(first, bias, second)

  auto operator()(auto x) const { return gr::matmul(gr::dropout(gr::gelu(gr::linear(x, first, bias)), 0.2), second); }
};

template <class Policy, class Make>
struct run {
  using X = gr::on<gr::cpu, Policy>;
  workplace at;
  net<X> model;
  decltype(Make{}(std::declval<net<X>&>())) optimizer = Make{}(model);
  gr::tape<gr::cpu> tape{at.ctx, 3};

  run() { gr::init(model, at.ctx, gr::he_normal{.seed = 5}); }
  void steps(std::uint32_t from, std::uint32_t to) {
    tape.set_random(3, from);
    for (std::uint32_t s = from; s < to; ++s) {
      const auto x = gr::normal<float, gr::shape<4, 5>>(at.ctx, {.seed = 11, .step = s});
      const auto y = model(tape.watch(x));
      gr::backward(gr::mean(gr::cast<float>(y * y)));
      optimizer.step(at.ctx);
    }
  }
  std::vector<float> weights() const {
    std::vector<float> all;
    gr::for_each_param(model, [&](auto, const auto& p) {
      for (const auto v : p.value().values()) all.push_back(static_cast<float>(v));
    });
    return all;
  }
};

template <class Policy, class Make>
void check_resumes() {
  const scratch_folder here;
  const auto path = here.path / "run.safetensors";
  run<Policy, Make> straight;
  straight.steps(0, 6);

  run<Policy, Make> first;
  first.steps(0, 3);
  gr::run_metadata metadata;
  metadata.set("step", 3);
  metadata.set("loss", 0.1 + 0.2);
  metadata.set("name", std::string_view("a \"run\""));
  gr::write_checkpoint(path, first.at.ctx, first.model, first.optimizer, metadata);
  first.steps(3, 6);  // that it was written down changes nothing
  CHECK(first.weights() == straight.weights());

  run<Policy, Make> second;
  second.steps(0, 1);  // whatever was there before is gone
  const gr::run_metadata read = gr::read_checkpoint(path, second.at.ctx, second.model, second.optimizer);
  CHECK(read.number<int>("step") == 3);
  CHECK(read.number<double>("loss") == 0.1 + 0.2);
  CHECK(read.text("name") == "a \"run\"");
  second.steps(3, 6);
  CHECK(second.weights() == straight.weights());
}

struct with_adamw {
  auto operator()(auto& m) const { return gr::adamw(m, {.lr = 1e-2}); }
};
struct with_momentum {
  auto operator()(auto& m) const { return gr::sgd(m, {.lr = 1e-2, .momentum = 0.9}); }
};
struct with_lion {
  auto operator()(auto& m) const { return gr::lion(m, {.lr = 1e-3}); }
};
struct with_any_precision {
  auto operator()(auto& m) const { return gr::any_precision_adamw(m); }
};
struct with_8bit {
  auto operator()(auto& m) const { return gr::adamw_8bit(m, {.lr = 1e-2}); }
};
struct with_adafactor {
  auto operator()(auto& m) const { return gr::adafactor(m); }
};
struct with_muon {
  auto operator()(auto& m) const { return gr::muon(m); }
};
struct with_rounding {
  auto operator()(auto& m) const {
    gr::adamw optimizer(m, {.lr = 1e-2});
    optimizer.set_rounding(gr::rounding::stochastic, 4);
    return optimizer;
  }
};

using plain = gr::on<gr::cpu>;

}  // namespace

TEST_CASE("a run is resumed from its checkpoint bit for bit, whatever its optimizer and precision") {
  check_resumes<gr::fp32, with_adamw>();
  check_resumes<gr::fp32, with_momentum>();
  check_resumes<gr::fp32, with_lion>();
  check_resumes<gr::fp32, with_8bit>();
  check_resumes<gr::fp32, with_adafactor>();
  check_resumes<gr::fp32, with_muon>();
  check_resumes<gr::bf16_mixed, with_adamw>();
  check_resumes<gr::bf16_pure, with_any_precision>();
  check_resumes<gr::bf16_pure, with_rounding>();
}

TEST_CASE("a parameter that took fewer steps than the optimizer goes on from its own count") {
  const scratch_folder here;
  const auto path = here.path / "run.safetensors";
  run<gr::fp32, with_adamw> straight, resumed, other;
  // Without the bias's gradient up to step 3.
  const auto steps = [](auto& r, std::uint32_t from, std::uint32_t to) {
    r.tape.set_random(3, from);
    for (std::uint32_t s = from; s < to; ++s) {
      const auto y = r.model(r.tape.watch(gr::normal<float, gr::shape<4, 5>>(r.at.ctx, {.seed = 11, .step = s})));
      gr::backward(gr::mean(y * y));
      if (s < 3) r.model.bias.clear_gradient();
      r.optimizer.step(r.at.ctx);
    }
  };
  steps(straight, 0, 4);
  gr::write_checkpoint(path, straight.at.ctx, straight.model, straight.optimizer, {});
  const gr::run_metadata read = gr::read_checkpoint(path, resumed.at.ctx, resumed.model, resumed.optimizer);
  CHECK(read.number<int>("optimizer.steps") == 4);
  CHECK(read.number<int>("optimizer.steps.bias") == 1);
  CHECK_FALSE(read.all().contains("optimizer.steps.first"));
  CHECK(resumed.optimizer.steps_by_parameter() == std::vector<std::size_t>{4, 1, 4});
  steps(straight, 4, 7);
  steps(resumed, 4, 7);
  CHECK(resumed.weights() == straight.weights());

  // Metadata of one checkpoint that is given to another says nothing of that one's steps.
  other.steps(0, 2);
  gr::write_checkpoint(path, other.at.ctx, other.model, other.optimizer, read);
  gr::read_checkpoint(path, resumed.at.ctx, resumed.model, resumed.optimizer);
  CHECK(resumed.optimizer.steps_by_parameter() == std::vector<std::size_t>{2, 2, 2});
}

TEST_CASE("of a checkpoint without counts of parameters, as they were before, each has the optimizer's") {
  const scratch_folder here;
  const auto path = here.path / "run.safetensors";
  run<gr::fp32, with_adamw> r;
  r.steps(0, 2);
  gr::write_checkpoint(path, r.at.ctx, r.model, r.optimizer, {});
  const gr::run_metadata written = gr::read_metadata(path);
  for (const auto& [name, text] : written.all()) CHECK_FALSE(name.starts_with("optimizer.steps."));
  r.optimizer.step(r.at.ctx);  // without gradients
  CHECK(r.optimizer.steps_by_parameter() == std::vector<std::size_t>{2, 2, 2});
  CHECK(r.optimizer.steps() == 3);
  gr::read_checkpoint(path, r.at.ctx, r.model, r.optimizer);
  CHECK(r.optimizer.steps_by_parameter() == std::vector<std::size_t>{2, 2, 2});
  CHECK(r.optimizer.steps() == 2);
}

TEST_CASE("counts of steps that cannot be are refused") {
  const scratch_folder here;
  const auto path = here.path / "run.safetensors";
  run<gr::fp32, with_adamw> r;
  gr::safetensors_writer file;
  file.set_metadata("optimizer.steps", "2");
  file.set_metadata("optimizer.steps.bias", "3");
  file.write(path);
  CHECK(message_of([&] {
          gr::read_checkpoint(path, r.at.ctx, r.model, r.optimizer);
        }).ends_with("is not a checkpoint: its 'optimizer.steps.bias' is above its 'optimizer.steps'"));
}

TEST_CASE("checkpoints before stay beside the new one, as many as there are names for") {
  const scratch_folder here;
  const auto path = here.path / "run.safetensors", before = here.path / "before.safetensors",
             oldest = here.path / "oldest.safetensors";
  run<gr::fp32, with_adamw> r;
  for (int step = 1; step <= 5; ++step) {
    gr::run_metadata metadata;
    metadata.set("step", step);
    gr::write_checkpoint(path, r.at.ctx, r.model, r.optimizer, metadata, {before, oldest});
    CHECK(gr::read_metadata(path).number<int>("step") == step);
    CHECK(std::filesystem::exists(before) == (step > 1));
    CHECK(std::filesystem::exists(oldest) == (step > 2));
    if (step > 1) CHECK(gr::read_metadata(before).number<int>("step") == step - 1);
    if (step > 2) CHECK(gr::read_metadata(oldest).number<int>("step") == step - 2);
  }
}

TEST_CASE("what is no checkpoint of this run is refused, and changes nothing") {
  const scratch_folder here;
  const auto path = here.path / "run.safetensors";
  run<gr::fp32, with_adamw> r;
  r.steps(0, 2);
  const auto refused = [&](auto& model, auto& optimizer) {
    return message_of([&] { gr::read_checkpoint(path, r.at.ctx, model, optimizer); });
  };
  CHECK(refused(r.model, r.optimizer).find("run.safetensors: no such file") != std::string::npos);

  gr::write_checkpoint(path, r.at.ctx, r.model, r.optimizer, {});
  const auto weights = r.weights();
  net<plain, 8> narrow;
  gr::init(narrow, r.at.ctx, gr::he_normal{});
  gr::adamw for_narrow(narrow);
  CHECK(refused(narrow, for_narrow).find("'first' has the shape [5, 9] where [5, 8] is needed") != std::string::npos);
  net<plain> other;
  gr::init(other, r.at.ctx, gr::he_normal{});
  gr::lion with_one_state(other);
  CHECK(refused(other, with_one_state).find("of another model or optimizer") != std::string::npos);

  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  CHECK(refused(r.model, r.optimizer).find("bytes of values; its header describes") != std::string::npos);
  gr::safetensors_writer file;
  file.write(path);
  CHECK(refused(r.model, r.optimizer).find("is not a checkpoint: it does not say 'optimizer.steps'") !=
        std::string::npos);
  CHECK(r.weights() == weights);
}

TEST_CASE("a checkpoint with a flipped bit in a tensor is refused, and changes nothing") {
  const scratch_folder here;
  const auto path = here.path / "run.safetensors";
  run<gr::fp32, with_adamw> r;
  r.steps(0, 2);
  gr::write_checkpoint(path, r.at.ctx, r.model, r.optimizer, {});
  r.steps(2, 3);
  const auto weights = r.weights();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-3, std::ios::end);
    const int byte = file.get();
    file.seekp(-3, std::ios::end);
    file.put(static_cast<char>(byte ^ 16));
  }
  CHECK(message_of([&] {
          gr::read_checkpoint(path, r.at.ctx, r.model, r.optimizer);
        }).find("run.safetensors: is damaged: its checksum is ") != std::string::npos);
  CHECK(r.weights() == weights);
}

TEST_CASE("a checkpoint is written by another thread while forward and backward go on") {
  const scratch_folder here;
  const auto path = here.path / "run.safetensors";
  run<gr::fp32, with_adamw> straight, r;
  straight.steps(0, 5);
  r.steps(0, 2);
  gr::run_metadata metadata;
  metadata.set("step", 2);
  const auto pending = gr::prepare_checkpoint(r.at.ctx, r.model, r.optimizer, metadata);
  std::thread writer([&] { pending.write(path); });
  r.tape.set_random(3, 2);
  const auto x = gr::normal<float, gr::shape<4, 5>>(r.at.ctx, {.seed = 11, .step = 2});
  const auto y = r.model(r.tape.watch(x));
  gr::backward(gr::mean(gr::cast<float>(y * y)));
  writer.join();
  r.optimizer.step(r.at.ctx);
  r.steps(3, 5);
  CHECK(r.weights() == straight.weights());

  run<gr::fp32, with_adamw> resumed;
  CHECK(gr::read_checkpoint(path, resumed.at.ctx, resumed.model, resumed.optimizer).number<int>("step") == 2);
  resumed.steps(2, 5);
  CHECK(resumed.weights() == straight.weights());
}

namespace {
// A model with a state that forward updates.
template <class X>
struct counted {
  gr::param<X, 5, 3> weight;
  gr::state<X, 5> mean;
  GRADUS_MEMBERS(weight, mean)

  auto operator()(const auto& x) const {
    mean.update(x, mean * 0.5f + gr::mean<0>(x) + 1);
    return gr::matmul(x, weight);
  }
};
}  // namespace

TEST_CASE("a checkpoint has states as they were when it was prepared, and frozen parameters stay frozen") {
  const scratch_folder here;
  const auto path = here.path / "run.safetensors";
  workplace at;
  counted<plain> model, resumed;
  gr::init(model, at.ctx, gr::he_normal{.seed = 2});
  gr::init(resumed, at.ctx, gr::he_normal{.seed = 3});
  gr::adamw optimizer{model}, other{resumed};
  gr::freeze(resumed.weight);
  gr::tape tape{at.ctx};
  const auto forward = [&](auto& m) {
    gr::backward(gr::sum(m(tape.watch(gr::normal<float, gr::shape<4, 5>>(at.ctx, {.seed = 1})))));
  };
  forward(model);
  optimizer.step(at.ctx);
  const auto before = gr::to_host(model.mean.value());
  const auto pending = gr::prepare_checkpoint(at.ctx, model, optimizer, {});
  forward(model);
  CHECK(gr::to_host(model.mean.value()) != before);
  pending.write(path);
  gr::read_checkpoint(path, at.ctx, resumed, other);
  CHECK(gr::to_host(resumed.mean.value()) == before);
  CHECK(gr::to_host(resumed.weight.value()) == gr::to_host(model.weight.value()));
  CHECK(resumed.weight.is_frozen());
  forward(resumed);
  CHECK(gr::to_host(resumed.mean.value()) == gr::to_host(model.mean.value()));
  other.step(at.ctx);
  CHECK(other.steps_by_parameter() == std::vector<std::size_t>{1});
  CHECK(gr::to_host(resumed.weight.value()) == gr::to_host(model.weight.value()));
}

TEST_CASE("metadata is read as what it was written as") {
  gr::run_metadata metadata;
  metadata.set("steps", 12);
  metadata.set("name", std::string_view("run"));
  CHECK(metadata.number<double>("steps") == 12);
  CHECK(message_of([&] { metadata.text("loss"); }) == "it does not say 'loss'");
  CHECK(message_of([&] { metadata.number<int>("name"); }) == "its 'name' is 'run', which is not a number of its kind");
}
