// All of gradus works on threads whose stack has 256 KiB, those of its own parallel loops among them.
#include <doctest/doctest.h>

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "gpt/model.hpp"

namespace gr = gradus;

namespace {

constexpr std::size_t stack_size = 256 << 10;

// Runs f on a thread with a small stack; threads that are started meanwhile get no more.
void on_a_small_stack(const std::function<void()>& f) {
  pthread_attr_t before, small;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  REQUIRE(pthread_attr_init(&small) == 0);
  REQUIRE(pthread_attr_setstacksize(&small, stack_size) == 0);
  REQUIRE(pthread_setattr_default_np(&small) == 0);
  pthread_t thread{};
  const auto enter = [](void* g) -> void* { return (*static_cast<const std::function<void()>*>(g))(), nullptr; };
  REQUIRE(pthread_create(&thread, &small, enter, const_cast<std::function<void()>*>(&f)) == 0);
  REQUIRE(pthread_join(thread, nullptr) == 0);
  pthread_setattr_default_np(&before);
  pthread_attr_destroy(&small);
  pthread_attr_destroy(&before);
}

struct world {
  explicit world(int threads) { gr::set_thread_count(stream, threads); }
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
};

template <class T, gr::index_t M, gr::index_t N, gr::index_t K>
void multiply(int threads) {
  world w(threads);
  const auto a = gr::ones<T, gr::shape<M, K>>(w.ctx);
  const auto b = gr::ones<T, gr::shape<K, N>>(w.ctx);
  const auto c = gr::matmul(a, b);
  CHECK(static_cast<double>(c.data()[M * N - 1]) == static_cast<double>(K));
}

// Gradients of heads as deep as they come.
template <class T, gr::index_t Time, gr::index_t Depth>
void attend(int threads) {
  world w(threads);
  gr::tape tape{w.ctx};
  const auto q = tape.variable(gr::normal<T, gr::shape<1, 2, Time, Depth>>(w.ctx, {.seed = 1}));
  const auto k = tape.variable(gr::normal<T, gr::shape<1, 2, Time, Depth>>(w.ctx, {.seed = 2}));
  const auto v = tape.variable(gr::normal<T, gr::shape<1, 2, Time, Depth>>(w.ctx, {.seed = 3}));
  const auto loss = gr::mean(gr::attention(q, k, v));
  gr::backward(loss);
  CHECK(gr::item(loss.value()) == gr::item(loss.value()));
}

template <class Precision>
void train(int threads) {
  constexpr gpt::config sizes{2, 2, 64, 70, 300};
  world w(threads);
  gpt::model<gr::on<gr::cpu, Precision>, sizes> net;
  net.dropout = 0.1;
  gr::init(net, w.ctx, gr::normal_init{.seed = 11});
  gr::adamw opt{net, {.lr = 1e-3}};
  gr::tape tape{w.ctx, 5};
  auto tokens = gr::empty<std::int32_t, gr::shape<3, sizes.context>>(w.ctx);
  for (gr::index_t i = 0; i < tokens.size; ++i) tokens.data()[i] = static_cast<std::int32_t>(i * 7 % sizes.vocabulary);
  double first = 0, last = 0;
  for (int step = 0; step < 3; ++step) {
    const auto loss = net.loss(tape.watch(tokens), tokens);
    gr::backward(loss);
    last = static_cast<double>(gr::item(loss.value()));
    if (step == 0) first = last;
    opt.clip(w.ctx, 1.0);
    opt.step(w.ctx);
  }
  CHECK(last < first);
}

}  // namespace

TEST_CASE("products, attention and a GPT's training work on stacks of 256 KiB, on one thread and on several") {
  for (const int threads : {1, 3})
    on_a_small_stack([threads] {
      multiply<float, 4, 4, 4>(threads);
      multiply<float, 300, 900, 700>(threads);
      multiply<double, 100, 300, 700>(threads);
      attend<float, 100, 64>(threads);
      attend<float, 70, 256>(threads);
      attend<double, 70, 128>(threads);
      train<gr::fp32>(threads);
      train<gr::fp64>(threads);
    });
}
