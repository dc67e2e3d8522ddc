// Preferences beside TRL's DPOTrainer, which recorded the losses of training on some: make_fine_tuning_fixtures.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradus/data/token_examples.hpp>
#include <gradus/planning.hpp>
#include <gradus/ranks/thread_communicator.hpp>

#include "gpt/preferences.hpp"
#include "gpt/tools/peft.hpp"
#include "small_models.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;

namespace {

using gradus_test::small_llama;

const fs::path data = GRADUS_TEST_DATA;

using pair = gpt::preference<gr::packed_batch>;
template <auto C, class D = gr::cpu>
using training = gpt::preference_training<D, C, gr::fp32, gr::adamw, 3>;

using net_of_recorded = gpt::model_of<gpt::placed<gr::cpu, gr::fp32, 3>, small_llama>;

struct recorded {
  std::vector<pair> pairs;  // two of an update
  std::vector<float> losses;
  float beta;

  recorded() {
    gr::safetensors_file file(data / "fine_tuning/llama_preferences.safetensors");
    const auto lengths = file.read<std::int32_t>("lengths"), tokens = file.read<std::int32_t>("tokens"),
               targets = file.read<std::int32_t>("targets");
    losses = file.read<float>("losses");
    beta = file.read<float>("beta").front();
    std::size_t at = 0, next = 0;
    const auto answer = [&] {
      std::vector<gr::token_example> one(1);
      for (std::int32_t i = 0; i < lengths[next]; ++i, ++at) {
        one[0].tokens.push_back(tokens[at]);
        one[0].is_target.push_back(static_cast<std::uint8_t>(targets[at]));
      }
      ++next;
      const std::size_t number = 0;
      return gr::pack_batch(one, {&number, 1}, one[0].positions());
    };
    while (next < lengths.size()) {
      pair& p = pairs.emplace_back();
      p.chosen = answer();
      p.rejected = answer();
    }
  }
};

gr::training_options options() {
  gr::training_options o{.clip = 1, .accumulate = 2, .adamw = {.lr = 1e-2, .weight_decay = 0.1}};
  const net_of_recorded net;
  gr::nn::for_each_adapter_slot(net, [&](std::string_view name, const auto&) {
    for (const char* one : {"query", "value", "projection", "gate", "down"})
      if (name.ends_with(one)) o.adapted_layers.emplace_back(name);
  });
  o.adapter.alpha = 5;
  return o;
}

// The losses of the recorded updates.
std::vector<double> train(const recorded& r, const gr::training_options& o, gr::communicator<gr::cpu>* ranks) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  training<small_llama> t(ctx, ctx, o, ranks);
  load_huggingface(t.net, ctx, data / "llama_family/qwen2");
  // The first matrices are those of PEFT's; the second ones begin as zeros.
  net_of_recorded peft;
  gr::init(peft, ctx, gr::normal_init{});
  gpt::load_adapters(peft, ctx, data / "fine_tuning/llama", 3);
  std::map<std::string, std::vector<float>> values;
  gr::for_each_trained(peft, [&](std::string_view name, const auto& p) {
    if (name.ends_with(".a")) values[std::string(name)] = gr::to_host(p.value());
  });
  gr::for_each_trained(t.net, [&](std::string_view name, auto& p) {
    if (const auto found = values.find(std::string(name)); found != values.end())
      p.set(gr::from_host<float, typename std::remove_cvref_t<decltype(p)>::shape>(ctx, found->second.data()));
    t.take_value(p);
  });
  t.beta = static_cast<double>(r.beta);
  std::vector<double> losses;
  for (std::size_t step = 0; step < r.losses.size(); ++step) {
    for (int i = 0; i < o.batches_here(); ++i) {
      t.load(i, r.pairs[2 * step + static_cast<std::size_t>(t.number_of(i))]);
      t.backward(i);
    }
    t.update();
    losses.push_back(t.send_loss().value());
  }
  return losses;
}

template <auto C>
void check_plan(const gr::training_options& o) {
  std::vector<pair> pairs;  // those that fit
  for (const pair& p : recorded().pairs)
    if (std::max(p.chosen.tokens.size(), p.rejected.tokens.size()) <= C.context) pairs.push_back(p);
  const gr::step_trace trace = gr::trace_step<training<C, gr::meta>>(o);
  const gr::step_summary plan = gr::summarize(trace);
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource kept(heap);
  gr::planned_resource planned(gr::make_plan(trace), heap, stream);
  gr::stats_resource used(planned);
  gr::context<gr::cpu> persistent{stream, kept}, transient{stream, used};
  training<C> t(persistent, transient, o);
  for (std::size_t step = 0; step < 3; ++step) {
    used.reset_peak();
    const std::size_t before = used.all().allocations;
    for (int i = 0; i < 2; ++i) {
      t.load(i, pairs[2 * step + static_cast<std::size_t>(i)]);
      t.backward(i);
    }
    t.update();
    planned.check();
    CHECK(kept.all().live + used.all().peak == plan.peak_bytes);
    CHECK(used.all().allocations - before == plan.requests);
  }
  gr::planned_resource planned_evaluation(
      gr::make_plan(gr::trace<training<C, gr::meta>>([](training<C, gr::meta>& of) { of.evaluate(); }, o)), heap,
      stream);
  gr::context<gr::cpu> evaluating{stream, planned_evaluation};
  training<C> evaluated(persistent, evaluating, o);
  CHECK(evaluated.evaluate(pairs[0]) > 0);
  planned_evaluation.check();
  std::size_t slots = 0;
  gr::nn::for_each_adapter_slot(t.net, [&](std::string_view, const auto& slot) {
    if (slot && ++slots > 0) CHECK(slot->settings.alpha == 5);
  });
  CHECK(slots == o.adapted_layers.size());
}

}  // namespace

TEST_CASE("a Llama's adapters learn preferences as TRL has them learn, with the same bits on two ranks") {
  const recorded r;
  gr::training_options o = options();
  o.leaves = 2;
  const std::vector<double> losses = train(r, o, nullptr);
  double worst = 0;
  for (std::size_t i = 0; i < losses.size(); ++i)
    worst = std::max(worst, std::abs(losses[i] - static_cast<double>(r.losses[i])));
  CHECK(worst < 1e-4);

  for (const auto shard : {gr::sharding::nothing, gr::sharding::gradients, gr::sharding::parameters}) {
    std::mutex checking;
    gr::run_ranks(2, [&](gr::communicator<gr::cpu>& ranks) {
      gr::training_options of_rank = o;
      of_rank.ranks = 2;
      of_rank.rank = static_cast<int>(ranks.rank());
      of_rank.shard = shard;
      const std::vector<double> found = train(r, of_rank, &ranks);
      const std::lock_guard alone_here(checking);
      CHECK(found == losses);
    });
  }
}

TEST_CASE("a step on preferences has the memory that was planned, and leaves the adapters' settings as they are") {
  check_plan<small_llama>(options());
  gr::training_options recomputed = options();
  recomputed.regions = gr::region_schedule::every_block(small_llama.layers);
  check_plan<small_llama>(recomputed);
  gr::training_options o{.accumulate = 2, .adapted_layers = {"blocks.0.attention.qkv", "blocks.1.mlp.down"}};
  o.adapter.alpha = 5;
  check_plan<gradus_test::small_gpt2>(o);
}
