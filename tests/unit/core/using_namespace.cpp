// Names beside others: POSIX's, and the standard library's under two using-directives.
#include <doctest/doctest.h>
#include <strings.h>  // POSIX's ::index

#include <algorithm>
#include <cmath>
#include <functional>
#include <gradus/gradus.hpp>
#include <map>
#include <numeric>
#include <stack>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

using namespace std;
using namespace gradus;

TEST_CASE("names of gradus do not collide with POSIX's under using namespace gradus") {
  const index_t rows = shape<2, 3>::extent(0);
  CHECK(rows == 2);
}

TEST_CASE("under using namespace std and gradus, all names but six are gradus's where tensors are their arguments") {
  host_resource memory;
  gradus::stream on;
  gradus::context ctx{on, memory};
  const auto x = ones<float, gradus::shape<2, 3>>(ctx);
  const auto i = zeros<int32_t, gradus::shape<2, 3>>(ctx);
  const auto a = exp(x) + log(x) + sqrt(x) + abs(x) + sin(x) + cos(x) + tanh(x) + floor(x) + ceil(x) + round(x) +
                 pow(x, 2.0) + atan2(x, x) + erf(x) + expm1(x) + log1p(x) + clamp(x, 0, 1) + minimum(x, x);
  const auto b = sort(gather<1>(x, i)) + scatter_add<1>(x, i, x) + roll<0>(x, 1) + cumsum<0>(x);
  const auto c = divide(x, x) + multiply(x, x) + where(x > 0, x, 1.0) + max(x) + min(x) + sum(x) + prod(x) + mean(x);
  const auto d = concat<0>(pad<0, 1, 1>(x), expand<1, 2, 3>(x).extent(0) == 1 ? x : x);
  CHECK(a.extent(0) + b.extent(0) + c.extent(0) + d.extent(0) == 12);
  // The six of docs/guide/shapes-and-errors.md.
  CHECK(gradus::negate(x)(0, 0) == -1);
  CHECK(gradus::logical_not(gradus::logical_or(x > 0, gradus::logical_and(x > 0, x < 0)))(0, 0) == false);
  CHECK(gradus::stack<0>(x, x).extent(0) == 2);
  CHECK(gradus::map(functor::add{}, x, x)(1, 2) == 2);
  CHECK(std::map<int, int>{}.empty());
}
