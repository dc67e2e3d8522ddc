#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <vector>

#include "../../support/message_of.hpp"

namespace gr = gradus;

namespace {

struct workplace {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context<gr::cpu> ctx{stream, stats};
};

struct alignas(gr::cpu::alignment) elements {
  float at[32] = {-1, 2, -3, 4, -5, 6};
};

void count(void* calls) { ++*static_cast<int*>(calls); }

}  // namespace

TEST_CASE("a borrowed tensor is the memory that it was made of, and asks the resource for none") {
  workplace at;
  elements theirs;
  auto x = gr::borrow<float, gr::shape<2, 3>>(at.ctx, theirs.at);
  CHECK(x.data() == theirs.at);
  CHECK(at.stats.all().allocations == 0);
  x(0, 1) = 20;
  CHECK(theirs.at[1] == 20);
  theirs.at[2] = 30;
  CHECK(gr::item(gr::sum(x)) == 54);
}

TEST_CASE("the end of borrowed memory is told once, after the last tensor that shares it") {
  workplace at;
  elements theirs;
  int calls = 0;
  {
    auto part = gr::tensor<float, gr::shape<16>>();
    {
      const auto x = gr::borrow<float, gr::shape<32>>(at.ctx, theirs.at, &count, &calls);
      const auto same = gr::reshape<2, 16>(x);
      part = gr::tensor<float, gr::shape<16>>(x.storage().part(64, 64));
    }
    CHECK(calls == 0);
    CHECK(part.data() == theirs.at + 16);
  }
  CHECK(calls == 1);
  CHECK(at.stats.all().allocations == 0);
}

TEST_CASE("no operation computes in borrowed memory, not even in that of a temporary tensor") {
  workplace at;
  const elements before;
  elements theirs;
  CHECK(gr::item(gr::sum(gr::relu(gr::borrow<float, gr::shape<6>>(at.ctx, theirs.at)))) == 12);
  const auto x = gr::borrow<float, gr::shape<32>>(at.ctx, theirs.at);
  CHECK_FALSE(x.unique());
  CHECK_FALSE(x.storage().part(0, 64).unique());
  CHECK(std::vector<float>(theirs.at, theirs.at + 32) == std::vector<float>(before.at, before.at + 32));
}

TEST_CASE("the gradient of a parameter is accumulated in borrowed memory that was placed there") {
  workplace at;
  elements theirs;
  gr::param<gr::on<gr::cpu>, 6> w;
  w.set(gr::ones<float, gr::shape<6>>(at.ctx));
  w.slot().place(gr::borrow<float, gr::shape<6>>(at.ctx, theirs.at));
  gr::tape tape{at.ctx};
  const auto x = tape.watch(gr::full<float, gr::shape<6>>(at.ctx, 3.0f));
  gr::backward(gr::sum(gr::watch(w, x) * x));
  CHECK(std::vector<float>(theirs.at, theirs.at + 6) == std::vector<float>(6, 3.0f));
}

TEST_CASE("an optimizer updates a parameter in borrowed memory that is its value") {
  workplace at;
  elements theirs;
  gr::param<gr::on<gr::cpu>, 2, 3> w;
  w.set(gr::borrow<float, gr::shape<2, 3>>(at.ctx, theirs.at));
  CHECK(w.value().data() == theirs.at);
  gr::sgd optimizer{w, {.lr = 0.5}};
  gr::tape tape{at.ctx};
  const auto x = tape.watch(gr::ones<float, gr::shape<2, 3>>(at.ctx));
  gr::backward(gr::sum(gr::watch(w, x) * x));
  optimizer.step(at.ctx);
  CHECK(std::vector<float>(theirs.at, theirs.at + 6) == std::vector<float>{-1.5, 1.5, -3.5, 3.5, -5.5, 5.5});
}

TEST_CASE("memory that kernels cannot use is not borrowed, and used_on is refused") {
  workplace at;
  elements theirs;
  using tensor = gr::shape<2>;
  CHECK(gradus_test::message_of([&] { static_cast<void>(gr::borrow<float, tensor>(at.ctx, theirs.at + 1)); }) ==
        "borrow(ctx, memory): the address must be a multiple of 64, and not null; copy the elements instead");
  float* const nothing = nullptr;
  CHECK(gradus_test::message_of([&] { static_cast<void>(gr::borrow<float, tensor>(at.ctx, nothing)); }) !=
        "nothing was thrown");
  const auto x = gr::borrow<float, tensor>(at.ctx, theirs.at);
  CHECK(gradus_test::message_of([&] { x.storage().used_on(at.stream); }) ==
        "buffer.used_on(stream): the bytes are borrowed; let their lender wait for the stream");
}
