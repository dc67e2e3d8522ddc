// Optimizers of pieces on the GPU: the bits of one of the whole model, and the same checkpoint.
#include <filesystem>
#include <fstream>
#include <gradus/run/shared_checkpoint.hpp>
#include <iterator>
#include <string>

#include "../support/scratch_folder.hpp"
#include "device.hpp"

namespace {

using X = gr::on<gr::cuda, gr::bf16_pure>;
using T = X::store;

struct pair {
  gr::param<X, 3, 3001> table;  // two units of 4096 elements and a part
  gr::param<X, 5> bias;
  gr::param<X, 48, 96> matrix;
  GRADUS_MEMBERS(table, bias, matrix)
};
using ranges = std::vector<gr::piece_range>;

gr::param_settings settings_of(const gr::param_info& p) {
  gr::param_settings s = gr::decay_matrices(p);
  s.orthogonal = p.size != 9003;
  return s;
}

struct world {
  gpu g;
  pair net;
  std::vector<double> norms;

  world() { gr::init(net, g.ctx, gr::normal_init{.seed = 3, .stddev = 1}); }
  // Three steps: the last without the table's gradient, the others clipped.
  template <class Of, class Optimizer>
  void run(const Of&, Optimizer& optimizer, bool clip) {
    optimizer.set_rounding(gr::rounding::stochastic, 7);
    for (std::uint32_t round = 0; round < 3; ++round) {
      std::uint32_t number = 0;
      gr::visit_params(net, [&](auto& p) {
        using P = std::remove_reference_t<decltype(p)>;
        const gr::random_key key{.seed = 8, .step = round, .ordinal = number++};
        if (round == 2 && number == 1) return;
        p.slot().give(gr::normal<X::gradient, typename P::shape>(g.ctx, key));
      });
      if (clip) norms.push_back(optimizer.clip(g.ctx, 1).value());
      optimizer.step(g.ctx);
    }
  }
};

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
std::vector<std::vector<float>> values_of(const pair& net) {
  std::vector<std::vector<float>> all;
  gr::visit_params(net, [&](const auto& p) {
    const std::vector<T> values = gr::to_host(p.value());
    all.emplace_back(values.begin(), values.end());
  });
  return all;
}

template <class Make>
void check(const Make& make, const std::vector<ranges>& cut) {
  const gradus_test::scratch_folder here;
  world whole, clipped;
  auto optimizer = make(whole.net);
  whole.run(whole.net, optimizer, false);
  const auto expected = values_of(whole.net);
  auto clipping = make(clipped.net);
  clipped.run(clipped.net, clipping, true);
  gr::write_checkpoint(here.path / "one", clipped.g.ctx, clipped.net, clipping, {});
  // Each rank alone.
  for (const ranges& mine : cut) {
    world w;
    gr::param_pieces pieces(w.net, mine);
    auto of_pieces = make(pieces);
    w.run(pieces, of_pieces, false);
    const auto got = values_of(w.net);
    for (const auto& [number, begin, size] : mine)
      for (gr::index_t i = begin; i < begin + size; ++i) REQUIRE(got[number][i] == expected[number][i]);
  }
  // All pieces on one rank, with the norm.
  ranges all;
  for (const gr::index_t number : {0, 1, 2})
    for (const ranges& mine : cut)
      for (const gr::piece_range& r : mine)
        if (r.number == number) all.push_back(r);
  world w;
  gr::param_pieces pieces(w.net, all);
  gr::single_communicator<gr::cuda> alone;
  auto of_pieces = make(pieces);
  of_pieces.share_norm(alone);
  w.run(pieces, of_pieces, true);
  CHECK(w.norms == clipped.norms);
  gr::write_checkpoint(here.path / "two", w.g.ctx, w.net, of_pieces, {}, {}, pieces, alone);
  CHECK((bytes_of(here.path / "two") == bytes_of(here.path / "one")));
  // And back.
  world fresh;
  gr::param_pieces again(fresh.net, all);
  auto read = make(again);
  gr::read_checkpoint(here.path / "one", fresh.g.ctx, fresh.net, read, again, alone);
  gr::write_checkpoint(here.path / "three", fresh.g.ctx, fresh.net, read, {}, {}, again, alone);
  CHECK((bytes_of(here.path / "three") == bytes_of(here.path / "one")));
}

const std::vector<ranges> fine{{{0, 0, 4096}, {2, 0, 4096}}, {{0, 4096, 4907}, {1, 0, 5}, {2, 4096, 512}}},
    whole_matrices{{{0, 0, 9003}}, {{1, 0, 5}, {2, 0, 4608}}};

}  // namespace

TEST_CASE("pieces of a model have the bits of an optimizer of the whole model on the GPU, and its checkpoint") {
  if (no_gpu()) return;
  check([](auto& m) { return gr::any_precision_adamw{m, {.lr = 0.1}, settings_of}; }, fine);
  check([](auto& m) { return gr::adamw_8bit{m, {.lr = 0.1}, settings_of}; }, fine);
  check([](auto& m) { return gr::adafactor{m, {.beta1 = 0.9}, settings_of}; }, whole_matrices);
  check([](auto& m) { return gr::muon{m, {.lr = 0.1}, settings_of}; }, whole_matrices);
}
