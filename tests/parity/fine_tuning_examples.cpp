// Packed examples beside transformers, which computed each document by itself: make_fine_tuning_fixtures.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <gradus/data/token_examples.hpp>
#include <gradus/planning.hpp>
#include <gradus/ranks/cpu/tree_sum.hpp>
#include <gradus/ranks/thread_communicator.hpp>

#include "gpt/tools/huggingface.hpp"
#include "gpt/training.hpp"
#include "llama/huggingface.hpp"
#include "small_models.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;

namespace {

const fs::path data = GRADUS_TEST_DATA;

using gradus_test::small_gpt2, gradus_test::small_llama;

constexpr std::size_t rows = 3;  // a micro-batch holds three documents of the longest size

template <auto C, class D = gr::cpu>
using training = gpt::training<D, C, rows, std::uint8_t, gr::fp32, gr::adamw, 0, true>;

// The recorded updates, each of two micro-batches.
struct updates {
  std::vector<std::vector<gr::packed_batch>> all;
  std::vector<float> losses;

  // Updates of four micro-batches, for as many ranks.
  std::vector<std::vector<gr::packed_batch>> joined() const {
    std::vector<std::vector<gr::packed_batch>> four;
    for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
      four.push_back(all[i]);
      four.back().insert(four.back().end(), all[i + 1].begin(), all[i + 1].end());
    }
    return four;
  }

  explicit updates(const std::string& name) {
    gr::safetensors_file file(data / "fine_tuning" / (name + "_examples.safetensors"));
    const auto lengths = file.read<std::int32_t>("lengths"), tokens = file.read<std::int32_t>("tokens"),
               targets = file.read<std::int32_t>("targets");
    losses = file.read<float>("losses");
    std::size_t at = 0, next = 0;
    for (std::size_t step = 0; step < losses.size(); ++step) {
      auto& batches = all.emplace_back();
      for (int batch = 0; batch < 2; ++batch) {
        std::vector<gr::token_example> documents;
        std::size_t n = 0;
        for (std::size_t d = 0; d < rows; ++d) {
          gr::token_example& one = documents.emplace_back();
          for (std::int32_t i = 0; i < lengths[next]; ++i, ++at) {
            one.tokens.push_back(tokens[at]);
            one.is_target.push_back(static_cast<std::uint8_t>(targets[at]));
          }
          n += one.positions();
          ++next;
        }
        std::vector<std::size_t> order(documents.size());
        std::iota(order.begin(), order.end(), 0u);
        batches.push_back(gr::pack_batch(documents, order, n));
      }
    }
  }
};

// Trains on the updates; the losses go to `found`, and the parameters, by name, to `values`.
template <auto C>
void train(const std::string& base, const std::vector<std::vector<gr::packed_batch>>& all, gr::training_options o,
           gr::communicator<gr::cpu>* ranks, std::vector<double>& found,
           std::map<std::string, std::vector<float>>& values) {
  o.accumulate = static_cast<int>(all.front().size());
  o.leaves = o.accumulate;
  o.clip = 1;
  o.adamw = {.lr = 1e-2, .weight_decay = 0.1};
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  training<C> t(ctx, ctx, o, ranks);
  load_huggingface(t.net, ctx, data / base, [&](auto& p) { t.take_value(p); });
  for (const auto& batches : all) {
    for (int n = 0; n < o.accumulate; ++n)
      t.set_share(n, static_cast<double>(batches[static_cast<std::size_t>(n)].predicted) / (rows * C.context));
    for (int i = 0; i < o.batches_here(); ++i) {
      t.load(i, batches[static_cast<std::size_t>(t.number_of(i))]);
      t.backward(i);
    }
    t.update();
    found.push_back(t.send_loss().value());
  }
  gr::for_each_param(t.net, [&](std::string_view name, const auto& p) {
    if (o.shard != gr::sharding::parameters) values[std::string(name)] = gr::to_host(p.value());
  });
}

// The same bits on one rank and on `count`.
template <auto C>
void check_ranks(int count, const std::string& base, const std::vector<std::vector<gr::packed_batch>>& all) {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> alone;
  train<C>(base, all, {}, nullptr, losses, alone);
  for (const auto shard : {gr::sharding::nothing, gr::sharding::gradients}) {
    std::mutex checking;
    gr::run_ranks(static_cast<gr::index_t>(count), [&](gr::communicator<gr::cpu>& ranks) {
      gr::training_options of_rank;
      of_rank.ranks = count;
      of_rank.rank = static_cast<int>(ranks.rank());
      of_rank.shard = shard;
      std::vector<double> found;
      std::map<std::string, std::vector<float>> values;
      train<C>(base, all, of_rank, &ranks, found, values);
      const std::lock_guard alone_here(checking);
      CHECK(found == losses);
      CHECK(values == alone);
    });
  }
}

template <auto C>
void check(const std::string& name, const std::string& base) {
  const updates u(name);
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> values;
  train<C>(base, u.all, {}, nullptr, losses, values);
  double worst = 0;
  for (std::size_t i = 0; i < losses.size(); ++i)
    worst = std::max(worst, std::abs(losses[i] - static_cast<double>(u.losses[i])));
  CHECK(worst < 1e-4);
  check_ranks<C>(2, base, u.all);
  check_ranks<C>(4, base, u.joined());
}

}  // namespace

TEST_CASE(
    "a Llama learns the targets of packed examples as transformers does, with the same bits on two and four ranks") {
  check<small_llama>("llama", "llama_family/qwen2");
}

TEST_CASE(
    "a GPT-2 learns the targets of packed examples as transformers does, with the same bits on two and four ranks") {
  check<small_gpt2>("gpt2", "gpt2");
}

TEST_CASE("a step of fewer tokens has the requests that were planned for the most, to the byte") {
  const gr::training_options o{.accumulate = 2};
  const gr::step_trace trace = gr::trace_step<training<small_llama, gr::meta>>(o);
  const gr::step_summary plan = gr::summarize(trace);
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource kept(heap);
  gr::planned_resource planned(gr::make_plan(trace), heap, stream);
  gr::stats_resource used(planned);
  gr::context<gr::cpu> persistent{stream, kept}, transient{stream, used};
  training<small_llama> t(persistent, transient, o);
  const updates u("llama");
  for (std::size_t step = 0; step < 3; ++step) {
    used.reset_peak();
    const std::size_t before = used.all().allocations;
    for (int i = 0; i < 2; ++i) {
      t.load(i, u.all[step][static_cast<std::size_t>(i)]);
      t.set_share(i, 0.5);
      t.backward(i);
    }
    t.update();
    planned.check();
    CHECK(kept.all().live + used.all().peak == plan.peak_bytes);
    CHECK(used.all().allocations - before == plan.requests);
  }
}
