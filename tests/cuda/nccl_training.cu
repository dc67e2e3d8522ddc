// Training on ranks with a GPU each: the bits of one rank, whatever the ranks share.
#include <cstdint>
#include <mutex>
#include <vector>

#include "../../examples/gpt/training.hpp"

#include "ranks.hpp"

namespace {

constexpr gpt::config two_layers{2, 2, 32, 8, 61};
constexpr gr::index_t batch = 2;

template <class P>
using trainer = gpt::training<gr::cuda, two_layers, batch, std::uint8_t, P, gr::adamw>;

/// Parameters after two updates of four micro-batches, with dropout and clipping.
template <class P>
std::vector<float> trained(gr::context<gr::cuda>& ctx, gr::communicator<gr::cuda>& ranks, gr::sharding shard) {
  gr::training_options o{.dropout = 0.1, .accumulate = 4, .leaves = 4, .shard = shard};
  o.ranks = static_cast<int>(ranks.size());
  o.rank = static_cast<int>(ranks.rank());
  trainer<P> t(ctx, ctx, o, &ranks);
  std::vector<float> found;
  for (std::uint32_t step = 0; step < 2; ++step) {
    for (int i = 0; i < o.batches_here(); ++i) {
      std::vector<std::uint8_t> text(2 * batch * two_layers.context);
      const auto number = 4 * step + static_cast<std::uint32_t>(t.number_of(i));
      for (std::size_t k = 0; k < text.size(); ++k)
        text[k] = static_cast<std::uint8_t>(gr::random_key{.seed = 3, .step = number}.words(k)[0] % 61);
      t.load(i, text.data(), text.data() + text.size() / 2);
      t.backward(i);
    }
    t.update();
    found.push_back(static_cast<float>(t.send_loss().value()));
  }
  gr::visit_params(t.net, [&](const auto& p) {
    for (const float w : gr::to_host(p.value())) found.push_back(w);
  });
  t.release_values();
  return found;
}

template <class P>
void check_same_bits(const std::vector<gr::sharding>& kinds) {
  std::vector<float> expected;
  with_ranks(1, [&](auto& comm, auto& ctx) { expected = trained<P>(ctx, comm, gr::sharding::nothing); });
  for (const gr::sharding shard : kinds) {
    CAPTURE(static_cast<int>(shard));
    std::mutex checking;
    with_ranks(2, [&](auto& comm, auto& ctx) {
      const std::vector<float> found = trained<P>(ctx, comm, shard);
      const std::lock_guard alone(checking);
      CHECK(found == expected);
    });
  }
}

}  // namespace

TEST_CASE("a GPT trained on two GPUs has the bits of one, whatever they share") {
  if (fewer_gpus_than(2)) return;
  SUBCASE("fp32") {
    check_same_bits<gr::fp32>(
        {gr::sharding::nothing, gr::sharding::states, gr::sharding::gradients, gr::sharding::parameters});
  }
  SUBCASE("bf16_mixed") { check_same_bits<gr::bf16_mixed>({gr::sharding::nothing, gr::sharding::parameters}); }
}
