// Axes are numbers from either end.
#include <doctest/doctest.h>

#include <tuple>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

// Two functions have the same values and gradients, to the bit.
template <class F, class G, class Shape = gr::shape<3, 5, 7>>
void check_same(F one, G other) {
  workplace at;
  const auto x = normal<float, Shape>(at.ctx);
  const auto y = other(x);
  const auto dy = normal<float, typename decltype(y)::shape>(at.ctx);
  const auto found = evaluate(at.ctx, one, dy, x);
  const auto wanted = evaluate(at.ctx, other, dy, x);
  CHECK(same_bits(one(x), y));
  CHECK(same_bits(found.y, wanted.y));
  CHECK(same_bits(std::get<0>(found.gradients), std::get<0>(wanted.gradients)));
}

}  // namespace

TEST_CASE("axes of reductions count from either end, and are kept if asked") {
  check_same([](const auto& x) { return gr::sum<0, -1>(x); }, [](const auto& x) { return gr::sum<0, 2>(x); });
  check_same([](const auto& x) { return gr::mean<-2>(x, gr::keep_axes); },
             [](const auto& x) { return gr::reshape<3, 1, 7>(gr::mean<1>(x)); });
  check_same([](const auto& x) { return gr::logsumexp<0>(x, gr::keep_axes); },
             [](const auto& x) { return gr::reshape<1, 5, 7>(gr::logsumexp<-3>(x)); });
  check_same([](const auto& x) { return gr::sum<gr::axes<0, 2>>(x); }, [](const auto& x) { return gr::sum<0, 2>(x); });
  check_same([](const auto& x) { return gr::prod<gr::axes<1>, true>(x); },
             [](const auto& x) { return gr::prod<1>(x, gr::keep_axes); });
  check_same([](const auto& x) { return gr::logsumexp<gr::axes<>>(x); },
             [](const auto& x) { return gr::logsumexp<0, 1, 2>(x); });
}

TEST_CASE("softmax works along any axis") {
  workplace at;
  const auto x = normal<float, gr::shape<3, 5, 7>>(at.ctx);
  CHECK(same_bits(gr::softmax<0>(x), gr::permute<2, 0, 1>(gr::softmax(gr::permute<1, 2, 0>(x)))));
  CHECK(worst_error(numbers(gr::sum<0>(gr::softmax<-3>(x))), values(35, 1.0)) < 1e-6);
  check_same([](const auto& v) { return gr::softmax<-1>(v); }, [](const auto& v) { return gr::softmax(v); });
  check_same([](const auto& v) { return gr::log_softmax<1>(v); },
             [](const auto& v) { return gr::permute<0, 2, 1>(gr::log_softmax(gr::permute<0, 2, 1>(v))); });
}

TEST_CASE("axes of moves count from either end") {
  check_same([](const auto& x) { return gr::permute<-1, 0, -2>(x); },
             [](const auto& x) { return gr::permute<2, 0, 1>(x); });
  check_same([](const auto& x) { return gr::slice<-1, 2, 3>(x); }, [](const auto& x) { return gr::slice<2, 2, 3>(x); });
  check_same([](const auto& x) { return gr::slice<-2, 3>(x, 1); }, [](const auto& x) { return gr::slice<1, 3>(x, 1); });
  check_same([](const auto& x) { return gr::concat<-3>(x, 2 * x); },
             [](const auto& x) { return gr::concat<0>(x, 2 * x); });
  check_same([](const auto& x) { return std::get<1>(gr::split<-1, 2, 5>(x)); },
             [](const auto& x) { return std::get<1>(gr::split<2, 2, 5>(x)); });
  check_same([](const auto& x) { return gr::stack<-1>(x, 2 * x); },
             [](const auto& x) { return gr::stack<3>(x, 2 * x); });
  check_same([](const auto& x) { return gr::pad<-2, 1, 0>(x); }, [](const auto& x) { return gr::pad<1, 1, 0>(x); });
  check_same([](const auto& x) { return gr::roll<-1>(x, 2); }, [](const auto& x) { return gr::roll<2>(x, 2); });
  check_same([](const auto& x) { return gr::cumsum<-2>(x); }, [](const auto& x) { return gr::cumsum<1>(x); });
}

TEST_CASE("axes of gathers count from either end") {
  workplace at;
  const auto of_last = gr::from_values<std::int32_t, gr::shape<2>>(at.ctx, {4, 1});
  check_same([&](const auto& x) { return gr::index_select<-1>(x, of_last); },
             [&](const auto& x) { return gr::index_select<2>(x, of_last); });
  const auto each = gr::full<std::int32_t, gr::shape<3, 2, 7>>(at.ctx, 3);
  check_same([&](const auto& x) { return gr::gather<-2>(x, each); },
             [&](const auto& x) { return gr::gather<1>(x, each); });
  const auto more = normal<float, gr::shape<3, 5, 2>>(at.ctx);
  check_same([&](const auto& x) { return gr::index_add<-1>(x, of_last, more); },
             [&](const auto& x) { return gr::index_add<2>(x, of_last, more); });
}
