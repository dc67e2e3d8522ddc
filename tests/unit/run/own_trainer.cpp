// A trainer of one's own under gr::run: lesson 14's net, with checkpoints, resuming and validation.
#include <doctest/doctest.h>

#include <array>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include <gradus/run/run.hpp>

#include "../../support/scratch_folder.hpp"

#define main lesson_14
#include "../../../examples/14_conv_net.cpp"
#undef main

namespace {

namespace fs = std::filesystem;

// Trains until stop(step), which may throw.
void train(
    const fs::path& folder, const std::function<bool(long long step)>& stop = [](long long) { return false; }) {
  const bool resume = fs::exists(gr::checkpoint_path(folder));
  gr::run_metadata identity;
  identity.set("model", std::string_view("conv_net"));
  long long done = 0;
  gr::run run({.names = {.program = "conv_net", .unit = "picture", .best = "best.safetensors"},
               .out = folder.string(),
               .resume = resume ? folder.string() : "",
               .steps = 8,
               .units_per_step = most,
               .eval_every = 2,
               .model = "model.safetensors"},
              identity, [&] { return stop(done); });
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  conv_net net;
  gr::init(net, ctx, gr::he_normal{.seed = 1});
  gr::sgd optimizer{net, {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4}};
  const pictures seen = draw(256, 1), unseen = draw(128, 2);
  const gr::sample_batches batches(seen.images, seen.labels, {.batch = most});
  const gr::sample_batches asked(unseen.images, unseen.labels, {.batch = most});
  gr::tape tape{ctx};
  const auto loss_of = [&](const auto& batch, const auto& watch) {
    const std::vector<std::int32_t> labels(batch.targets.values.begin(), batch.targets.values.end());
    const auto targets = gr::from_values<std::int32_t, gr::shape<gr::upto<most>>>(ctx, labels, batch.rows());
    return gr::cross_entropy(net(watch(to_tensor(ctx, batch.inputs))), targets);
  };
  gr::resumable_model saved(ctx, net, optimizer);
  run.begin(saved);
  done = run.state.step;
  try {
    while (run.next()) {
      const auto loss = loss_of(batches.shuffled_batch(7, static_cast<std::uint64_t>(run.state.step)),
                                [&](const auto& x) { return tape.watch(x); });
      gr::backward(loss);
      run.wait_for_checkpoint();
      optimizer.step(ctx);
      run.step_done({.loss = gr::item(loss.value())});
      done = run.state.step;
      if (run.due())
        if (const auto mean = run.mean(asked.batches(), [&](std::size_t i) {
              return std::array<double, 1>{gr::item(loss_of(asked.batch(i), [](const auto& x) { return x; }))};
            }))
          run.validated(gr::validation{.loss = (*mean)[0]});
      run.save_and_show();
    }
  } catch (const std::exception& e) {
    run.save_after(e);
    throw;
  }
  run.end();
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
// The steps of a log, and 'v' after each that was validated.
std::string steps_of(const fs::path& folder) {
  std::ifstream log(folder / "log.jsonl");
  std::string steps;
  for (std::string line; std::getline(log, line);)
    steps += line.substr(9, line.find(',') - 9) + (line.find("validation") != line.npos ? "v" : "");
  return steps;
}

}  // namespace

TEST_CASE("a run that is stopped, or ended by an exception, and then resumed has the bits of one that was not") {
  const gradus_test::scratch_folder f;
  train(f.path / "whole");
  const std::string model = contents(f.path / "whole" / "model.safetensors");
  REQUIRE_FALSE(model.empty());
  CHECK(steps_of(f.path / "whole") == "12v34v56v78v");
  CHECK(fs::exists(f.path / "whole" / "best.safetensors"));

  train(f.path / "stopped", [](long long step) { return step == 3; });
  CHECK(steps_of(f.path / "stopped") == "12v3");
  train(f.path / "stopped");
  CHECK(steps_of(f.path / "stopped") == "12v34v56v78v");
  CHECK(contents(f.path / "stopped" / "model.safetensors") == model);

  const auto fail = [](long long step) -> bool {
    if (step == 5) throw gr::error("the text has changed");
    return false;
  };
  CHECK_THROWS_WITH_AS(train(f.path / "failed", fail), "the text has changed", gr::error);
  train(f.path / "failed");
  CHECK(steps_of(f.path / "failed") == "12v34v56v78v");
  CHECK(contents(f.path / "failed" / "model.safetensors") == model);
}

TEST_CASE("a run without an end, and an update that does not wait for the checkpoint, are errors") {
  const gradus_test::scratch_folder f;
  CHECK_THROWS_WITH_AS(gr::run({.out = f.path.string()}, {}), "run: has no end; give it steps or minutes", gr::error);
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  conv_net net;
  gr::init(net, ctx, gr::he_normal{.seed = 1});
  gr::sgd optimizer{net, {}};
  gr::resumable_model saved(ctx, net, optimizer);
  gr::run run({.out = f.path.string(), .steps = 2}, {});
  run.begin(saved);
  REQUIRE(run.next());
  CHECK_THROWS_WITH_AS(run.step_done({.loss = 1}), doctest::Contains("call wait_for_checkpoint() before each"),
                       gr::error);
}

TEST_CASE("a finished run is not resumed for no step, nor another run's") {
  const gradus_test::scratch_folder f;
  train(f.path / "run");
  CHECK_THROWS_WITH_AS(train(f.path / "run"), doctest::Contains("has taken 8 steps already; give more than that"),
                       gr::bad_flag);
}
