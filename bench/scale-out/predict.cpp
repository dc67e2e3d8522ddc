// Steps of GPT-2 124M and 1.5B and of a Llama of 7B on 8 to 4096 H100s, as the model predicts them.

#include "predict.hpp"

#include <cstdint>
#include <cstdio>
#include <utility>

#include <llama/model.hpp>

#include "model.hpp"

namespace bench {

namespace {

constexpr gpt::config gpt2_124m{.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocabulary = 50257};
constexpr gpt::config gpt2_1558m{.layers = 48, .heads = 25, .width = 1600, .context = 1024, .vocabulary = 50257};
constexpr llama::config llama_7b{.layers = 32,
                                 .heads = 32,
                                 .width = 4096,
                                 .context = 4096,
                                 .vocabulary = 32000,
                                 .kv_heads = 32,
                                 .hidden = 11008,
                                 .tied = 0};

// Eight H100s a node, and a network card of 400 Gbit/s for each.
constexpr machine h100{.flops = 0.376 * 989e12,
                       .memory = 0.9 * 3.35e12,
                       .node = 8,
                       .within = {.latency = 3e-6, .overhead = 1e-6, .bandwidth = 370e9},
                       .among = {.latency = 7e-6, .overhead = 1e-6, .bandwidth = 45e9},
                       .processors = 0};
constexpr double gpu_bytes = 80e9;

void assume(const char* what, const char* value, const char* source) {
  std::printf("{\"row\": \"assumption\", \"what\": \"%s\", \"value\": \"%s\", \"source\": \"%s\"}\n", what, value,
              source);
}

void print_assumptions() {
  assume("forward and backward", "372 TFLOP/s, 37.6 % of 989",
         "llm.c, GPT-2 124M on an H100 of eight; taken for all models");
  assume("optimizer, sums", "3.0 TB/s", "0.9 of an H100's 3.35, as an H200's copy reaches 4.3 of 4.8");
  assume("links in a node", "370 GB/s a GPU and direction", "nccl-tests, ring on 8 H100s");
  assume("links among nodes", "45 GB/s a GPU and direction", "a card of 400 Gbit/s a GPU, 0.9 of its rate: assumed");
  assume("latency among nodes", "7 us", "nccl-tests, 4 nodes: 0.9 GB/s at 32 KiB are 70 us, 2 log2(32) messages");
  assume("latency in a node", "3 us", "assumed");
  assume("overhead of a message", "1 us", "assumed; the tree and shares of unequal size take one for each other rank");
  assume("exchange", "takes no time from the GPU's kernels", "assumed: a bound");
  assume("work of a GPU", "one micro-batch an update, whatever their number", "so the batch grows with the GPUs");
  assume("memory", "planned bytes of rank 0, to the byte", "the trainer's step traced on the meta device");
}

// What the model makes of sums that others have timed: nccl-tests on 4 nodes of 8, in bus bandwidth.
void check_sums() {
  for (const auto& [bytes, published] : {std::pair{32 << 10, 0.9}, std::pair{32 << 20, 98.0}}) {
    gr::collective sum;
    sum.kind = gr::collective_kind::all_reduce;
    sum.options.order = gr::sum_order::fastest;
    sum.count = static_cast<gr::index_t>(bytes);
    const double rate = bytes * 2.0 * 31 / 32 / h100.seconds(sum, 32);
    std::printf("{\"row\": \"check\", \"bytes\": %d, \"gb_s\": %.2f, \"published_gb_s\": %.1f}\n", bytes, rate * 1e-9,
                published);
  }
}

template <auto C, gr::index_t Batch>
void predict_model(const char* name, const gr::region_schedule& regions) {
  using training = gpt::training<gr::cuda_meta, C, Batch, std::uint16_t, gr::bf16_mixed>;
  const auto tokens = static_cast<double>(Batch * C.context);
  gr::training_options o;
  o.regions = regions;
  const double alone = predict(note_step<training>(o), h100, 1).all;
  for (const int ranks : {8, 64, 512, 4096}) {
    for (const auto& [shard, shard_name] : shardings)
      for (const auto& [order, order_name] : orders) {
        o.ranks = o.leaves = o.accumulate = ranks;
        o.shard = shard;
        o.order = order;
        const rank_step step = note_step<training>(o);
        const step_time t = predict(step, h100, static_cast<gr::index_t>(ranks));
        const auto bytes = static_cast<double>(planned_bytes(step));
        std::printf(
            "{\"row\": \"predicted\", \"model\": \"%s\", \"ranks\": %d, \"shard\": \"%s\", \"sums\": \"%s\", "
            "\"step_ms\": %.3f, \"tokens_s\": %.0f, \"efficiency\": %.4f, \"exchange_ms\": %.3f, \"hidden\": %.3f, "
            "\"bytes\": %.0f, \"fits\": %s}\n",
            name, ranks, shard_name, order_name, t.all * 1e3, tokens * ranks / t.all, alone / t.all, t.exchanged * 1e3,
            t.hidden(), bytes, bytes <= gpu_bytes ? "true" : "false");
        std::fflush(stdout);
      }
  }
}

}  // namespace

void predict_gpus() {
  print_assumptions();
  check_sums();
  const auto recomputed = [](gr::index_t layers) { return gr::region_schedule::every_block(layers); };
  predict_model<gpt2_124m, 32>("GPT-2 124M, 32 x 1024 tokens a GPU", {});
  predict_model<gpt2_1558m, 16>("GPT-2 1.5B, 16 x 1024 tokens a GPU, blocks recomputed", recomputed(gpt2_1558m.layers));
  predict_model<llama_7b, 4>("Llama 7B, 4 x 4096 tokens a GPU, blocks recomputed", recomputed(llama_7b.layers));
}

}  // namespace bench
