#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <gradus/model/parameter_residency.hpp>

#include "../../support/message_of.hpp"

namespace gr = gradus;
using gradus_test::message_of;

namespace {

using X = gr::on<gr::cpu>;
struct part {
  gr::param<X, 4, 4> w;
  GRADUS_MEMBERS(w)
};
struct net {
  part a, b, c;
  GRADUS_MEMBERS(a, b, c)
};

// Group g has values g + 1; until a load has ended, its memory has others.
struct failing_store final : gr::group_store<float> {
  std::size_t fails = 99;
  float* to[3] = {};
  void start_load(std::size_t group, float* memory) override {
    to[group] = memory;
    std::fill_n(memory, 16, -777.0f);
  }
  void finish_load(std::size_t group) override {
    if (std::exchange(fails, group == fails ? 99 : fails) == group) throw gr::error("the disk has failed once");
    std::fill_n(to[group], 16, static_cast<float>(group + 1));
  }
};

}  // namespace

TEST_CASE("a group whose load has failed is not resident, and is loaded again, wherever it failed") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx(stream, heap);
  net n;
  gr::init(n, ctx, gr::normal_init{});
  failing_store store;
  gr::parameter_residency<float, gr::cpu> residency(ctx, gr::param_groups<float, gr::cpu>(n), store, 2);
  residency.follow({0, 1, 2});
  const auto first = [](const part& p) { return p.w.value().data()[0]; };
  CHECK(first(n.a) == 1);  // and b begins to load
  store.fails = 1;
  // c is used in its place: room is made, by waiting for a load that fails.
  CHECK(first(n.c) == 3);
  CHECK(message_of([&] { first(n.a); }) == "the disk has failed once");
  CHECK_FALSE(residency.is_resident(1));
  CHECK(first(n.b) == 2);
  store.fails = 0;
  residency.evict();
  CHECK(message_of([&] { first(n.a); }) == "the disk has failed once");
  CHECK(first(n.a) == 1);
}
