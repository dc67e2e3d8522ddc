// Optimizers of pieces: ranks that share a model's states have the bits of one optimizer of the whole model.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gradus/gradus.hpp>
#include <gradus/ranks/thread_communicator.hpp>

#include "../../support/message_of.hpp"
#include "../../support/seed.hpp"

namespace gr = gradus;

namespace {

using X = gr::on<gr::cpu, gr::bf16_pure>;
using T = X::store;
using G = X::gradient;
using pieces_type = gr::param_pieces<T, gr::cpu, G>;

struct model {
  gr::param<X, 70, 131> table;
  gr::param<X, 96, 64> matrix;
  gr::param<X, 5> bias;
  gr::param<X, 96, 64> other_matrix;
  gr::param<X, 8197> vector;
  GRADUS_MEMBERS(table, matrix, bias, other_matrix, vector)
};
constexpr gr::index_t parameters = 5;
constexpr gr::index_t sizes[parameters] = {70 * 131, 96 * 64, 5, 96 * 64, 8197};

gr::param_settings settings_of(const gr::param_info& p) {
  gr::param_settings s = gr::decay_matrices(p);
  if (p.name == "table") s.orthogonal = false;
  if (p.name == "matrix") s.lr = 0.5;
  if (p.name == "other_matrix") s.float_states = true;
  return s;
}

// A cut of the model among ranks: which may be cut within says `divisible`.
std::vector<std::vector<gr::piece_range>> random_cut(gr::index_t ranks, unsigned divisible, std::mt19937& random) {
  std::vector<std::vector<gr::piece_range>> all(ranks);
  for (gr::index_t number = 0; number < parameters; ++number) {
    const gr::index_t size = sizes[number];
    for (gr::index_t begin = 0; begin < size;) {
      gr::index_t end = size;
      if ((divisible >> number & 1u) != 0) end = std::min(size, begin + gr::piece_unit * (1 + random() % 3));
      all[random() % ranks].push_back({number, begin, end - begin});
      begin = end;
    }
  }
  return all;
}

// What is compared: bytes by name.
using contents = std::map<std::string, std::vector<std::byte>>;
void put(contents& to, const std::string& name, gr::index_t element, gr::index_t begin, gr::index_t n,
         gr::index_t whole, const void* data) {
  std::vector<std::byte>& bytes = to[name];
  bytes.resize(whole * element, std::byte{0xA5});
  std::memcpy(bytes.data() + begin * element, data, n * element);
}

struct outcome {
  contents all;
  std::vector<double> norms;
  std::vector<std::size_t> steps;
  std::size_t skipped = 0;
  bool operator==(const outcome&) const = default;
};

template <class Make>
struct rank_world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  model net;

  rank_world() { gr::init(net, ctx, gr::normal_init{.seed = 3, .stddev = 1}); }
  void give_gradients(unsigned seed, unsigned round) {
    std::uint32_t number = 0;
    gr::visit_params(net, [&](auto& p) {
      using P = std::remove_reference_t<decltype(p)>;
      const gr::random_key key{.seed = seed, .step = round, .ordinal = number++};
      if (round == 1 && number == 2) return;  // `matrix` has none
      if (round == 3 && number == 5) return;  // nor has `vector`
      auto g = gr::empty<G, typename P::shape>(ctx);
      for (gr::index_t i = 0; i < g.size; ++i) g.data()[i] = G(gr::uniform_float(key.words(i)[0]) - 0.4f);
      if (round == 2 && number == 1) g.data()[4099] = G(std::numeric_limits<float>::infinity());
      p.slot().give(std::move(g));
    });
  }
  // Takes five steps with an optimizer of `of`, the model or pieces of it.
  template <class Of>
  void run(Of& of, const Make& make, unsigned seed, gr::communicator<gr::cpu>* ranks, outcome& out) {
    auto optimizer = make(of);
    gr::weight_average average{of, {.decay = 0.9}};
    gr::loss_scaler<gr::cpu> scaler(ctx);
    if (ranks != nullptr) optimizer.share_norm(*ranks);
    optimizer.set_rounding(gr::rounding::stochastic, 7);
    for (unsigned round = 0; round < 5; ++round) {
      give_gradients(seed, round);
      optimizer.unscale(scaler);
      if (round == 4) optimizer.clip_value(0.3);
      if (round != 2) out.norms.push_back(optimizer.clip(ctx, round == 0 ? 1e9 : 1e-5).value());
      optimizer.step(ctx);
      scaler.update(ctx);
      average.update(ctx);
      gr::visit_params(net, [](const auto& p) { CHECK(!p.has_gradient()); });
    }
    out.steps = optimizer.steps_by_parameter();
    out.skipped = optimizer.skipped();
    const auto take = [&](const gr::named_state<gr::cpu>& s) {
      const gr::index_t element = s.dtype == "u8" ? 1 : s.dtype == "bf16" ? 2 : 4;
      put(out.all, std::string(s.parameter) + "." + std::string(s.state), element, s.begin, s.size, s.whole, s.data);
    };
    optimizer.for_each_state(ctx, of, take);
    average.for_each_state(ctx, of, take);
  }
};

// `divisible`: bit n says that parameter n may be cut.
template <class Make>
void check(const Make& make, unsigned divisible) {
  const unsigned seed = gradus_test::fresh_seed();
  std::mt19937 random(seed);
  outcome expected;
  {
    rank_world<Make> whole;
    whole.run(whole.net, make, seed, nullptr, expected);
    gr::for_each_param(whole.net, [&](std::string_view name, auto& p) {
      put(expected.all, std::string(name), sizeof(T), 0, p.size(), p.size(), p.edit_data());
    });
  }
  CHECK(expected.skipped == 1);
  CHECK(expected.steps == std::vector<std::size_t>{4, 3, 4, 4, 3});
  for (const gr::index_t ranks : {1u, 2u, 3u, 5u}) {
    CAPTURE(ranks);
    const auto cut = random_cut(ranks, divisible, random);
    std::vector<rank_world<Make>> worlds(ranks);
    std::vector<std::unique_ptr<pieces_type>> pieces;
    for (gr::index_t r = 0; r < ranks; ++r) pieces.push_back(std::make_unique<pieces_type>(worlds[r].net, cut[r]));
    std::vector<outcome> of_ranks(ranks);
    gr::run_ranks(ranks, [&](gr::communicator<gr::cpu>& mine) {
      const gr::index_t r = mine.rank();
      worlds[r].run(*pieces[r], make, seed, &mine, of_ranks[r]);
    });
    outcome got;
    for (gr::index_t r = 0; r < ranks; ++r) {
      CHECK(of_ranks[r].norms == expected.norms);
      CHECK(of_ranks[r].steps == expected.steps);
      CHECK(of_ranks[r].skipped == expected.skipped);
      for (auto& p : pieces[r]->all()) {
        const auto [number, begin, size] = p.range();
        put(got.all, pieces[r]->names()[number], sizeof(T), begin, size, sizes[number], p.edit_data());
      }
    }
    // The states of a rank lie in full-size arrays, with a filler elsewhere.
    for (const auto& state : expected.all) {
      const std::string& name = state.first;
      CAPTURE(name);
      std::vector<std::byte>& to = got.all[name];
      for (const outcome& o : of_ranks)
        if (const auto found = o.all.find(name); found != o.all.end()) {
          if (to.empty()) to.assign(found->second.size(), std::byte{0xA5});
          REQUIRE(to.size() == found->second.size());
          for (std::size_t i = 0; i < to.size(); ++i)
            if (found->second[i] != std::byte{0xA5}) to[i] = found->second[i];
        }
      CHECK(to == state.second);
    }
    CHECK(got.all.size() == expected.all.size());
  }
}

constexpr unsigned every = 31, but_matrices = 1 + 4 + 16;

}  // namespace

TEST_CASE("pieces of a model on any number of ranks have the bits of an optimizer of the whole model") {
  SUBCASE("sgd") {
    check([](auto& m) { return gr::sgd{m, {.lr = 0.1, .momentum = 0.9}, settings_of}; }, every);
  }
  SUBCASE("adamw") {
    check([](auto& m) { return gr::adamw{m, {.lr = 0.1}, settings_of}; }, every);
  }
  SUBCASE("any_precision_adamw") {
    check([](auto& m) { return gr::any_precision_adamw{m, {.lr = 0.1}, settings_of}; }, every);
  }
  SUBCASE("lion") {
    check([](auto& m) { return gr::lion{m, {.lr = 0.1}, settings_of}; }, every);
  }
  SUBCASE("adamw_8bit") {
    check([](auto& m) { return gr::adamw_8bit{m, {.lr = 0.1}, settings_of}; }, every);
  }
  SUBCASE("adafactor") {
    check([](auto& m) { return gr::adafactor{m, {.beta1 = 0.9}, settings_of}; }, 0);
  }
  SUBCASE("muon") {
    check([](auto& m) { return gr::muon{m, {.lr = 0.1}, settings_of}; }, but_matrices);
  }
}

TEST_CASE("a piece has values and a gradient of its own where it is given memory for them") {
  rank_world<int> w;
  w.give_gradients(1, 0);
  gr::param_pieces pieces(w.net, {{.number = 0, .begin = 4096, .size = 5074}, {.number = 4, .begin = 0, .size = 4096}});
  auto& piece = pieces.all()[0];
  CHECK(piece.gradient_data() == w.net.table.gradient_data() + 4096);
  CHECK(piece.edit_data() == w.net.table.edit_data() + 4096);
  CHECK(piece.extent(1) == 131);
  std::vector<T> values(5074, T(1.0f));
  std::vector<G> gradient(5074, G(1.0f));
  const std::uint64_t version = w.net.table.version();
  piece.set_value_storage(values.data());
  piece.set_gradient_storage(gradient.data(), true);
  gr::sgd optimizer{pieces, {.lr = 0.5}};
  const T before = w.net.table.value().values()[4096], other = w.net.vector.value().values()[0];
  optimizer.step(w.ctx);
  CHECK(static_cast<float>(values[5073]) == 0.5f);
  CHECK(w.net.table.value().values()[4096] == before);
  CHECK(w.net.table.version() == version);
  CHECK(w.net.vector.value().values()[0] != other);  // this piece is in the model's memory
  CHECK(!piece.has_gradient());
  CHECK(w.net.table.has_gradient());  // its slot is the caller's
  optimizer.step(w.ctx);              // without a gradient
  CHECK(static_cast<float>(values[0]) == 0.5f);
  CHECK(optimizer.steps_by_parameter() == std::vector<std::size_t>{1, 1, 1, 1, 1});
  pieces.wholes()[3].set_gradient_storage(nullptr, true);
  optimizer.step(w.ctx);
  CHECK(optimizer.steps_by_parameter() == std::vector<std::size_t>{1, 1, 1, 2, 1});
}

TEST_CASE("a weight average of pieces puts the averages into these pieces while it is in use") {
  rank_world<int> whole, w;
  gr::param_pieces pieces(w.net, {{.number = 0, .begin = 4096, .size = 5074}});
  gr::weight_average of_all{whole.net, {.decay = 0.5}}, of_pieces{pieces, {.decay = 0.5}};
  for (const float value : {1.0f, 2.0f}) {
    for (T& x : whole.net.table.edit().values()) x = T(value);
    for (T& x : w.net.table.edit().values()) x = T(value);
    of_all.update(whole.ctx);
    of_pieces.update(w.ctx);
  }
  {
    const auto use_all = of_all.use(whole.ctx);
    const auto use_pieces = of_pieces.use(w.ctx);
    CHECK(static_cast<float>(whole.net.table.value().values()[4096]) == 1.5f);
    CHECK(static_cast<float>(w.net.table.value().values()[4096]) == 1.5f);
    CHECK(static_cast<float>(w.net.table.value().values()[4095]) == 2.0f);  // another rank's, which the caller gathers
  }
  CHECK(static_cast<float>(w.net.table.value().values()[4096]) == 2.0f);
}

TEST_CASE("what cannot be a piece is refused, and so is a part of what an optimizer updates as a whole") {
  rank_world<int> w;
  using gradus_test::message_of;
  const auto refuses = [&](std::vector<gr::piece_range> ranges, const std::string& why) {
    CHECK(message_of([&] { gr::param_pieces{w.net, ranges}; }).find(why) != std::string::npos);
  };
  refuses({{5, 0, 5}}, "the model has 5");
  refuses({{0, 4096, 5075}}, "[4096, 9171) of parameter 0 is not within its 9170 elements");
  refuses({{0, 0, 0}}, "is empty");
  refuses({{0, 131, 4096}}, "must begin and end at multiples of 4096");
  refuses({{0, 0, 4095}}, "must begin and end at multiples of 4096");
  refuses({{0, 4096, 4096}, {0, 0, 4096}}, "must follow the piece before it");
  refuses({{0, 0, 8192}, {0, 4096, 4096}}, "must follow the piece before it");
  gr::param_pieces part(w.net, {{.number = 1, .begin = 0, .size = 4096}});
  CHECK(message_of([&] { gr::adafactor{part}; }) ==
        "adafactor(pieces): it updates parameter 1 as a whole; a piece has 4096 of its 6144 elements");
  CHECK(message_of([&] { gr::muon{part}; }).find("muon(pieces): it updates parameter 1 as a whole") == 0);
  gr::adamw optimizer{part};
  CHECK(message_of([&] { optimizer.for_each_state(w.ctx, w.net, [](const auto&) {}); }) ==
        "optimizer.for_each_state(ctx, model, f): pass what the optimizer was made of, the model or its param_pieces");
}
