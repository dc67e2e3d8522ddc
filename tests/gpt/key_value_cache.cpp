// Logits with a key-value cache are those of a forward pass over the whole context, bit for bit: at every position,
// however the tokens are cut into chunks, for any number of sequences and threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gradus/generate/token_window.hpp>

#include "../support/message_of.hpp"
#include "../support/operands.hpp"
#include "../support/seed.hpp"
#include "gpt/model.hpp"
#include "llama/model.hpp"

namespace gr = gradus;
using gradus_test::fresh_seed;
using gradus_test::message_of;
using gradus_test::workplace;

namespace {

constexpr gpt::config small{2, 3, 39, 13, 61};
constexpr gpt::config several_blocks{2, 2, 34, 151, 61};  // of keys and of queries
constexpr gpt::config whole_packs{2, 4, 64, 29, 61};      // products of few rows take another way than those of many
constexpr llama::config rotated{2, 4, 40, 151, 61, 2, 51, 0};

template <class T>
bool same_bits(const T* a, const T* b, gr::index_t count) {
  return std::memcmp(static_cast<const void*>(a), static_cast<const void*>(b), count * sizeof(T)) == 0;
}

template <class Precision, auto C, gr::index_t Batch>
struct written {
  using X = gr::on<gr::cpu, Precision>;
  using network = gpt::model_of<X, C>;
  static constexpr gr::index_t columns = C.padded_vocabulary();

  explicit written(int threads) {
    gr::set_thread_count(place.stream, threads);
    gr::init(net, place.ctx, gr::normal_init{.seed = fresh_seed(), .stddev = 0.3});
    ids = gradus_test::integers<std::int32_t, gr::shape<Batch, C.context>>(place.ctx, 0,
                                                                           static_cast<int>(C.vocabulary) - 1);
    logits = net(ids);
  }

  // The tokens from `at` on, Times of them; behind the context, and behind the `count` that are meant, there is
  // anything.
  template <gr::index_t Times>
  auto chunk(gr::index_t at, gr::index_t count) {
    auto some = gradus_test::integers<std::int32_t, gr::shape<Batch, Times>>(place.ctx, 0, 60);
    for (gr::index_t b = 0; b < Batch; ++b)
      for (gr::index_t t = 0; t < count; ++t) some(b, t) = ids(b, at + t);
    return some;
  }
  // Takes in `count` tokens, and says whether the logits behind the last are those of the whole context.
  template <gr::index_t Times>
  bool next_is_right(typename network::template cache<Batch>& past, gr::index_t count) {
    const gr::index_t last = past.position() + count - 1;
    const auto found = gr::next_logits(net, chunk<Times>(past.position(), count), past, count);
    bool right = past.position() == last + 1;
    for (gr::index_t b = 0; b < Batch; ++b)
      right = right && same_bits(found.data() + b * columns, logits.data() + (b * C.context + last) * columns, columns);
    return right;
  }

  workplace place;
  network net;
  gr::tensor<std::int32_t, gr::shape<Batch, C.context>> ids;
  decltype(std::declval<const network&>()(ids)) logits;
};

template <class Precision, auto C, gr::index_t Batch>
void check(int threads) {
  written<Precision, C, Batch> w(threads);
  typename gpt::model_of<gr::on<gr::cpu, Precision>, C>::template cache<Batch> past(w.place.ctx);
  for (gr::index_t t = 0; t < C.context; ++t) {  // token by token
    CAPTURE(t);
    REQUIRE(w.template next_is_right<1>(past, 1));
  }
  past.rewind(0);
  std::mt19937 engine(fresh_seed());
  while (past.room() > 0) {  // in chunks of random lengths
    const gr::index_t most = std::min<gr::index_t>(past.room(), C.context > 100 && engine() % 2 == 0 ? 89 : 7);
    const gr::index_t count = std::uniform_int_distribution<gr::index_t>(1, most)(engine);
    CAPTURE(past.position());
    CAPTURE(count);
    if (count > 7) REQUIRE(w.template next_is_right<89>(past, count));
    else REQUIRE(w.template next_is_right<7>(past, count));
  }
  past.rewind(4);  // every position of a chunk
  const auto found = w.net.hidden(w.template chunk<7>(4, 7), past, 7);
  const auto all = w.net.hidden(w.ids);
  for (gr::index_t b = 0; b < Batch; ++b)
    CHECK(same_bits(found.data() + b * 7 * C.width, all.data() + (b * C.context + 4) * C.width, 7 * C.width));
}

}  // namespace

TEST_CASE("with a cache, the logits of fp32 are those of the whole context, bit for bit") {
  check<gr::fp32, small, 1>(1);
  check<gr::fp32, several_blocks, 3>(3);
  check<gr::fp32, whole_packs, 1>(2);
}
TEST_CASE("with a cache, the logits of bf16_mixed are those of the whole context, bit for bit") {
  check<gr::bf16_mixed, small, 2>(4);
  check<gr::bf16_mixed, several_blocks, 1>(2);
  check<gr::bf16_mixed, whole_packs, 2>(1);
}
TEST_CASE("with a cache, the logits of bf16_stream are those of the whole context, bit for bit") {
  check<gr::bf16_stream, small, 2>(3);
  check<gr::precision_with<gr::bf16_stream, gr::keep_copies>, small, 2>(2);
}
TEST_CASE("with a cache, a Llama's logits are those of the whole context, bit for bit") {
  check<gr::fp32, rotated, 3>(3);
  check<gr::bf16_mixed, rotated, 1>(2);
}
TEST_CASE("with a cache, the logits of fp16_mixed, bf16_pure and fp64 are those of the whole context, bit for bit") {
  check<gr::fp16_mixed, small, 2>(2);
  check<gr::bf16_pure, small, 3>(1);
  check<gr::fp64, small, 2>(3);
}

TEST_CASE("a cache that is rewound computes the rest again") {
  written<gr::fp32, small, 2> w(2);
  gpt::model<gr::on<gr::cpu>, small>::cache<2> past(w.place.ctx);
  for (int i = 0; i < 2; ++i) {
    while (past.room() > 0) REQUIRE(w.next_is_right<1>(past, 1));
    past.rewind(5);
    CHECK(past.room() == 8);
  }
  CHECK(message_of([&] { past.rewind(6); }) == "key_value_cache: rewind(6): it keeps no more than 5");
}

TEST_CASE("a cache takes no more than it was made for, and says so") {
  written<gr::fp32, small, 1> w(1);
  gpt::model<gr::on<gr::cpu>, small>::cache<1> past(w.place.ctx);
  REQUIRE(w.next_is_right<7>(past, 7));
  CHECK(message_of([&] { (void)gr::next_logits(w.net, w.chunk<7>(6, 7), past, 7); }) ==
        "key_value_cache: 7 more times do not fit behind 7; it was made for 13: rewind it and compute the last of them "
        "again");
  CHECK(past.position() == 7);
  CHECK(w.next_is_right<7>(past, 6));
  const auto qkv = gradus_test::normal<float, gr::shape<1, 2, 3 * 39>>(w.place.ctx);
  past.rewind(3);
  const auto one = gr::causal_attention<3>(qkv, past.layer(0, 1));  // the first of the two
  for (gr::index_t i = 0; i < 39; ++i) CHECK(one(0, 1, i) == 0);
  CHECK(message_of([&] { (void)gr::causal_attention<3>(qkv, past.layer(0, 4)); }) ==
        "causal_attention(qkv, past): 4 new positions do not fit after the 3 cached ones: the cache holds 13, and qkv "
        "has 2 positions");
  gr::nn::key_value_cache<gr::on<gr::cpu>, 2, 1, 3, 13, 13> two(w.place.ctx);
  CHECK(message_of([&] { (void)two.layer(2, 1); }) == "key_value_cache: layer(2): it was made for the layers 0 .. 1");
}

TEST_CASE("the bytes of a cache are known before it is made, and are all that it asks for") {
  using cache = gr::nn::key_value_cache<gr::on<gr::cpu, gr::bf16_mixed>, 2, 3, 4, 5, 6>;
  static_assert(cache::bytes == 2 * 2 * 3 * 4 * 5 * 6 * 2);
  workplace place;
  const cache past(place.ctx);
  CHECK(place.stats.all().live == cache::bytes);
  CHECK(place.stats.all().total == cache::bytes);
}
