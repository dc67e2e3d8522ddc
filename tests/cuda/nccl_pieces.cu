// Ranks with a GPU each that share an optimizer's states, over NCCL.
#include <cstring>
#include <limits>

#include "ranks.hpp"

namespace {

using X = gr::on<gr::cuda, gr::bf16_pure>;
using pieces_type = gr::param_pieces<X::store, gr::cuda, X::gradient>;

struct model {
  gr::param<X, 70, 131> table;
  gr::param<X, 96, 64> matrix;
  gr::param<X, 5> bias;
  gr::param<X, 8197> vector;
  GRADUS_MEMBERS(table, matrix, bias, vector)
};
constexpr gr::index_t sizes[] = {70 * 131, 96 * 64, 5, 8197};

/// The model's parameters dealt out to ranks at random; those whose bit is set in `divisible` in pieces.
std::vector<std::vector<gr::piece_range>> random_cut(gr::index_t ranks, unsigned divisible, std::mt19937& random) {
  std::vector<std::vector<gr::piece_range>> all(ranks);
  for (gr::index_t number = 0; number < std::size(sizes); ++number)
    for (gr::index_t begin = 0, end = 0; begin < sizes[number]; begin = end) {
      end = (divisible >> number & 1u) != 0 ? std::min(sizes[number], begin + gr::piece_unit) : sizes[number];
      all[random() % ranks].push_back({number, begin, end - begin});
    }
  return all;
}

struct outcome {
  std::vector<double> norms;
  std::size_t skipped = 0;
  std::vector<std::vector<gr::bf16>> values;  // of each parameter
};
/// Three steps, the second of which has a gradient that is not finite, of the pieces that belong to one rank; without
/// pieces, of the model.
template <class Make>
outcome train(gr::context<gr::cuda>& ctx, const Make& make, unsigned seed, gr::communicator<gr::cuda>* ranks,
              const std::vector<gr::piece_range>* mine) {
  model net;
  gr::init(net, ctx, gr::normal_init{.seed = seed, .stddev = 1});
  pieces_type pieces(net, mine == nullptr ? std::vector<gr::piece_range>() : *mine);
  auto optimizer = mine == nullptr ? make(net) : make(pieces);
  gr::loss_scaler<gr::cuda> scaler(ctx);
  if (ranks != nullptr) optimizer.share_norm(*ranks);
  optimizer.set_rounding(gr::rounding::stochastic, 7);
  outcome out;
  for (unsigned round = 0; round < 3; ++round) {
    std::mt19937 engine(seed + round);
    gr::visit_params(net, [&](auto& p) {
      using shape = typename std::remove_reference_t<decltype(p)>::shape;
      std::uniform_real_distribution<float> draw(-1, 1);
      std::vector<gr::bf16> g(shape::size);
      for (gr::bf16& v : g) v = gr::bf16(draw(engine));
      if (round == 1 && shape::size == sizes[3]) g[4100] = gr::bf16(std::numeric_limits<float>::infinity());
      p.slot().give(gr::from_host<gr::bf16, shape>(ctx, g.data()));
    });
    optimizer.unscale(scaler);
    const double norm = optimizer.clip(ctx, round == 0 ? 1e9 : 1e-3).value();
    if (round != 1) out.norms.push_back(norm);
    optimizer.step(ctx);
    scaler.update(ctx);
  }
  out.skipped = optimizer.skipped();
  gr::visit_params(net, [&](auto& p) { out.values.push_back(gr::to_host(p.value())); });
  return out;
}

template <class Make>
void check(const Make& make, unsigned divisible) {
  if (fewer_gpus_than(4)) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  outcome whole;
  {
    gpu g;
    whole = train(g.ctx, make, seed, nullptr, nullptr);
  }
  CHECK(whole.skipped == 1);
  for (const gr::index_t ranks : {2, 4}) {
    CAPTURE(ranks);
    const auto cut = random_cut(ranks, divisible, random);
    std::vector<outcome> of(ranks);
    with_ranks(static_cast<int>(ranks), [&](gr::nccl_communicator& comm, gr::context<gr::cuda>& ctx) {
      of[comm.rank()] = train(ctx, make, seed, &comm, &cut[comm.rank()]);
    });
    for (gr::index_t r = 0; r < ranks; ++r) {
      CHECK(of[r].norms == whole.norms);
      CHECK(of[r].skipped == whole.skipped);
      for (const auto [number, begin, size] : cut[r])
        CHECK(std::memcmp(&of[r].values[number][begin], &whole.values[number][begin], size * sizeof(gr::bf16)) == 0);
    }
  }
}

}  // namespace

TEST_CASE("pieces of a model on several GPUs have the bits of an optimizer of the whole model") {
  constexpr unsigned all = 15, but_matrices = 4 + 8;
  SUBCASE("adamw") {
    check([](auto& m) { return gr::adamw{m, {.lr = 0.1}}; }, all);
  }
  SUBCASE("adamw_8bit") {
    check([](auto& m) { return gr::adamw_8bit{m, {.lr = 0.1}}; }, all);
  }
  SUBCASE("adafactor") {
    check([](auto& m) { return gr::adafactor{m, {.beta1 = 0.9}}; }, 0);
  }
  SUBCASE("muon") {
    check([](auto& m) { return gr::muon{m, {.lr = 0.1}}; }, but_matrices);
  }
}
