// The plan of GPT-2 124M at its real shapes, made by the compiler at its default limits.
#include <doctest/doctest.h>

#include <gradus/planning.hpp>

#include "gpt/training.hpp"

namespace gr = gradus;

namespace {

constexpr gpt::config gpt2{.layers = 12, .heads = 12, .width = 768, .context = 1024, .vocabulary = 50257};
using on_meta = gpt::training<gr::meta, gpt2, 4>;
template <class D, class P>
using mixed_on = gpt::training<D, gpt2, 4, std::uint8_t, P>;
using mixed_on_meta = mixed_on<gr::meta, gr::bf16_mixed>;

constexpr gr::training_options plain{.dropout = 0.1};
constexpr gr::step_summary kept = gr::summarize_step<on_meta>(plain);

constexpr gr::step_summary mixed = gr::summarize_step<mixed_on_meta>(plain);

// std::vector cannot outlive a constant expression, so what holds a schedule is made inside of one.
constexpr gr::step_summary checkpointed = [] {
  gr::training_options o{.dropout = 0.1};
  o.regions = gr::region_schedule::every_block(gpt2.layers);
  return gr::summarize_step<on_meta>(o);
}();

constexpr std::size_t operator""_MiB(unsigned long long n) { return static_cast<std::size_t>(n) << 20; }

// Parameters and two moments of AdamW, four bytes each; the token table has 50304 rows, a multiple of 64.
// Besides, the tokens of a batch, its targets, its loss and the norm of its gradients.
constexpr std::size_t parameters = 124'475'904;
static_assert(kept.persistent_bytes == 3 * 4 * parameters + 2 * 4 * gpt2.context + sizeof(float) + sizeof(double));
static_assert(kept.peak_bytes < 4200_MiB);
static_assert(checkpointed.peak_bytes < 2400_MiB);
static_assert(checkpointed.persistent_bytes == kept.persistent_bytes);
static_assert(kept.recomputed_flops() == 0);
static_assert(mixed.persistent_bytes == kept.persistent_bytes);  // parameters and moments stay in fp32
static_assert(mixed.saved_bytes < kept.saved_bytes * 3 / 4);
static_assert(mixed.peak_bytes < kept.peak_bytes);
static_assert(checkpointed.recomputed_flops() > 0);

}  // namespace

TEST_CASE("the compiler's plan of GPT-2 124M is the one that the program makes") {
  const gr::step_summary again = gr::summarize_step<on_meta>(plain);
  CHECK(again.peak_bytes == kept.peak_bytes);
  CHECK(again.requests == kept.requests);
  CHECK(again.saved_bytes == kept.saved_bytes);
  gr::training_options o{.dropout = 0.1};
  o.regions = gr::region_schedule::every_block(gpt2.layers);
  CHECK(gr::summarize_step<on_meta>(o).peak_bytes == checkpointed.peak_bytes);
  const gr::step_summary mixed_again = gr::summarize_step<mixed_on_meta>(plain);
  CHECK(mixed_again.peak_bytes == mixed.peak_bytes);
  CHECK(mixed_again.requests == mixed.requests);
  // Copies of the operands of products, from update to update.
  constexpr std::size_t copied_parameters = 50304 * 768 + 12 * 12 * 768 * 768;
  const auto copied =
      gr::summarize_step<mixed_on<gr::meta, gr::precision_with<gr::bf16_mixed, gr::keep_copies>>>(plain);
  CHECK(copied.persistent_bytes == mixed.persistent_bytes + 2 * copied_parameters);
  CHECK(copied.peak_bytes == mixed.peak_bytes + 2 * copied_parameters);
  // On a GPU biases of products have copies, too, each tensor's count of missed steps is there from the start, and the
  // logits are one chunk in place of four.
  constexpr std::size_t tensors = 4 + 12 * gpt2.layers, copied_biases = 12 * 9 * 768;
  constexpr std::size_t logits = 4 * gpt2.context * 50304;
  CHECK(gr::summarize_step<mixed_on<gr::cuda_meta, gr::bf16_mixed>>(plain).peak_bytes ==
        copied.peak_bytes + 2 * copied_biases + tensors * sizeof(double) + 2 * (logits - logits / 4));
  // In bf16_stream the inputs of 25 norms are half as large, and positions have a copy.
  constexpr std::size_t stream_elements = 4 * gpt2.context * gpt2.width;
  const auto streamed = gr::summarize_step<mixed_on<gr::meta, gr::bf16_stream>>(plain);
  CHECK(streamed.saved_bytes == mixed.saved_bytes - 2 * 25 * stream_elements);
  CHECK(streamed.persistent_bytes == mixed.persistent_bytes + 2 * gpt2.context * gpt2.width);
  CHECK(streamed.peak_bytes < mixed.peak_bytes);
  MESSAGE("peak of GPT-2 124M, batch 4, context 1024: " << (kept.peak_bytes >> 20) << " MiB, checkpointed "
                                                        << (checkpointed.peak_bytes >> 20) << " MiB, in bf16_mixed "
                                                        << (mixed.peak_bytes >> 20) << " MiB");
}
