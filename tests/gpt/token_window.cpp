// Writing text with a window of tokens: what the model sees, and that its logits are those of a pass over the window.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gradus/generate/token_window.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>

#include "../support/counted_heap.hpp"
#include "../support/message_of.hpp"
#include "../support/seed.hpp"
#include "gpt/model.hpp"

namespace gr = gradus;
using gradus_test::fresh_seed;
using gradus_test::message_of;

namespace {

constexpr gpt::config small{2, 3, 39, 13, 61};
constexpr gpt::config longer{1, 2, 34, 150, 61};
constexpr gpt::config shortest{1, 1, 8, 1, 61};

template <class Precision, gpt::config C>
struct text {
  using X = gr::on<gr::cpu, Precision>;

  text() { gr::init(net, ctx, gr::normal_init{.seed = fresh_seed(), .stddev = 0.3}); }
  std::int32_t any_token() { return static_cast<std::int32_t>(engine() % C.vocabulary); }
  // True if the logits are those of one pass over the tokens that the window should have.
  bool is_right(const std::vector<std::int32_t>& seen) {
    if (!std::ranges::equal(window.tokens(), seen)) return false;
    std::vector<std::int32_t> padded(seen);
    padded.resize(C.context);
    const auto all = net(gr::from_host<std::int32_t, gr::shape<1, C.context>>(ctx, padded.data()));
    return std::ranges::equal(window.logits(),
                              std::span(all.data() + (seen.size() - 1) * C.padded_vocabulary(), C.vocabulary),
                              [](auto a, auto b) { return static_cast<float>(a) == static_cast<float>(b); });
  }

  std::mt19937 engine{fresh_seed()};
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context<gr::cpu> ctx{stream, pool};
  gpt::model<X, C> net;
  gr::token_window<gpt::model<X, C>> window{net, ctx};
};

template <class Precision, gpt::config C>
void check_a_long_text() {
  text<Precision, C> t;
  std::vector<std::int32_t> seen(1 + t.engine() % C.context);
  for (auto& token : seen) token = t.any_token();
  t.window.begin(seen);
  REQUIRE(t.is_right(seen));
  for (gr::index_t i = 0; i < 3 * C.context; ++i) {
    seen.push_back(t.any_token());
    if (seen.size() > C.context)  // the window slides: half of the context is left
      seen.erase(seen.begin(), seen.end() - std::max<std::ptrdiff_t>(1, C.context / 2));
    t.window.add({seen.back()});
    CAPTURE(i);
    REQUIRE(t.is_right(seen));
  }
}

// Three texts together, beside a window for each: they begin alike and go on differently.
template <class Precision, gpt::config C>
void check_texts_together() {
  using one = gr::token_window<gpt::model<gr::on<gr::cpu, Precision>, C>>;
  text<Precision, C> t;
  std::vector<one> apart;
  for (int i = 0; i < 3; ++i) apart.emplace_back(t.net, t.ctx);
  gr::token_window<gpt::model<gr::on<gr::cpu, Precision>, C>, 3> together(t.net, t.ctx);
  std::vector<std::int32_t> prompt(1 + t.engine() % C.context);
  for (auto& token : prompt) token = t.any_token();
  for (int round = 0; round < 2; ++round) {
    for (one& window : apart) window.begin(prompt);
    if (round == 0) together.begin_as(apart[0]);
    else together.begin(prompt);
    for (gr::index_t i = 0; i < 2 * C.context; ++i) {
      CAPTURE(round);
      CAPTURE(i);
      for (gr::index_t k = 0; k < 3; ++k) {
        REQUIRE(std::ranges::equal(together.tokens(k), apart[k].tokens()));
        REQUIRE(std::ranges::equal(together.logits(k), apart[k].logits(),
                                   [](auto a, auto b) { return static_cast<float>(a) == static_cast<float>(b); }));
      }
      const std::array<std::int32_t, 3> next{t.any_token(), t.any_token(), t.any_token()};
      for (gr::index_t k = 0; k < 3; ++k) apart[k].add({next[k]});
      together.add(next);
    }
  }
}

}  // namespace

TEST_CASE("texts that are written together have the logits of each by itself") {
  check_texts_together<gr::fp32, small>();
  check_texts_together<gr::bf16_mixed, small>();
  check_texts_together<gr::fp32, longer>();
}

TEST_CASE("a window's logits are those of a pass over its tokens, also where it slides") {
  check_a_long_text<gr::fp32, small>();
  check_a_long_text<gr::bf16_mixed, small>();
  check_a_long_text<gr::fp32, longer>();
  check_a_long_text<gr::fp32, shortest>();
}

TEST_CASE("a text that is begun again keeps what is the same, and a longer one is seen from its end") {
  text<gr::fp32, longer> t;
  std::vector<std::int32_t> prompt(100);
  for (auto& token : prompt) token = t.any_token();
  for (int again = 0; again < 3; ++again) {
    t.window.begin(prompt);
    REQUIRE(t.is_right(prompt));
    t.window.add({5});
    prompt[40] = (prompt[40] + 1) % 61;
  }
  prompt.resize(30);
  t.window.begin(prompt);
  CHECK(t.is_right(prompt));
  std::vector<std::int32_t> much(400);
  for (auto& token : much) token = t.any_token();
  t.window.begin(much);
  CHECK(t.is_right({much.end() - 150, much.end()}));
  CHECK(message_of([&] { t.window.begin({}); }) == "token_window: a text must begin with a token at least");
}

TEST_CASE("a window takes no memory from the heap once it has written a token and slid") {
  text<gr::bf16_mixed, small> t;
  gr::token_sampler sampler({.temperature = 0.9, .top_k = 20, .top_p = 0.9, .repetition_penalty = 1.1});
  const gr::generation how;
  const auto write = [&](int count) {
    for (int i = 0; i < count; ++i)
      t.window.add({static_cast<std::int32_t>(
          sampler.choose(t.window.logits(), t.window.tokens(), how.draw(static_cast<std::uint32_t>(i))))});
  };
  t.window.begin(std::vector<std::int32_t>{1});
  write(40);
  const std::size_t before = heap_requests();
  write(40);
  CHECK(heap_requests() == before);
}

TEST_CASE("generate() passes on what it draws, the same for the same seed, and ends where it is told to") {
  using model = gpt::model<gr::on<gr::cpu>, gpt::config{1, 2, 16, 8, 256}>;
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  model net;
  gr::init(net, ctx, gr::normal_init{.seed = fresh_seed(), .stddev = 0.3});
  gr::token_window<model> window(net, ctx);
  const auto write = [&](std::uint64_t seed, std::size_t most) {
    std::string text;
    gr::generate(window, gr::text_tokenizer(), "ab", 30, {.seed = seed}, [&](std::string_view bytes) {
      text += bytes;
      return text.size() < most;
    });
    return text;
  };
  const std::string once = write(1, 100);
  CHECK(once.size() == 30);
  CHECK(write(1, 100) == once);
  CHECK(write(2, 100) != once);
  CHECK(write(1, 7) == once.substr(0, 7));
}

TEST_CASE("generate() ends at the token that ends a text, and does not write it") {
  using model = gpt::model<gr::on<gr::cpu>, gpt::config{1, 2, 16, 8, 700}>;
  const gr::tokenizer bpe = gr::read_tokenizer_json(std::string(GRADUS_TEST_DATA) + "/tokenizer/tokenizer.json");
  REQUIRE(bpe.id_of("<|endoftext|>") == 0);
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  model net;
  gr::init(net, ctx, gr::normal_init{.stddev = 0});  // all logits are 0, and token 0 comes first
  gr::token_window<model> window(net, ctx);
  int written = 0;
  gr::generate(window, gr::text_tokenizer(bpe), "ab", 5, {.rule = {.temperature = 0}},
               [&](std::string_view) { return ++written > 0; });
  CHECK(written == 0);
}
