#include <doctest/doctest.h>

#include <cstdint>

#include "ops.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
using cube = gr::shape<3, 5, 7>;
const given<cube> x{"x"};

template <class T, class Axes>
void check_axes(const std::string& suffix) {
  check_case<T>(
      "sum_" + suffix, [](auto v) { return gr::sum<Axes>(v); }, x);
  check_case<T>(
      "mean_" + suffix, [](auto v) { return gr::mean<Axes>(v); }, x);
  check_case<T>(
      "max_" + suffix, [](auto v) { return gr::max<Axes>(v); }, x);
  check_case<T>(
      "min_" + suffix, [](auto v) { return gr::min<Axes>(v); }, x);
  check_case<T>(
      "var_" + suffix, [](auto v) { return gr::variance<Axes>(v); }, x);
}
template <class T, class Axis>
void check_argmax(const std::string& name) {
  workplace at;
  const auto found = gr::argmax<Axis>(recorded<T, cube>(at.ctx, name + ".x"));
  static_assert(std::is_same_v<typename decltype(found)::value_type, std::int32_t>);
  const auto wanted = recorded_ops(name + ".y").values(name + ".y");
  CHECK(std::equal(wanted.begin(), wanted.end(), found.values().begin(), found.values().end()));
}
}  // namespace

TEST_CASE_TEMPLATE("reductions over any axes have PyTorch's values and gradients", T, double, float) {
  check_axes<T, gr::axes<0>>("0");
  check_axes<T, gr::axes<1>>("1");
  check_axes<T, gr::axes<-1>>("2");
  check_axes<T, gr::axes<0, 2>>("02");
}

TEST_CASE_TEMPLATE("reductions over all axes, and ones that keep their axes, have PyTorch's values and gradients", T,
                   double, float) {
  check_case<T>(
      "sum_all", [](auto v) { return gr::sum(v); }, x);
  check_case<T>(
      "mean_all", [](auto v) { return gr::mean(v); }, x);
  check_case<T>(
      "max_all", [](auto v) { return gr::max(v); }, x);
  check_case<T>(
      "var_all", [](auto v) { return gr::variance(v); }, x);
  check_case<T>(
      "sum_1_keep", [](auto v) { return gr::sum<1>(v, gr::keep_axes); }, x);
  check_case<T>(
      "mean_2_keep", [](auto v) { return gr::mean<2>(v, gr::keep_axes); }, x);
}

TEST_CASE_TEMPLATE("argmax finds PyTorch's indices", T, double, float) {
  check_argmax<T, gr::axes<0>>("argmax_0");
  check_argmax<T, gr::axes<1>>("argmax_1");
  check_argmax<T, gr::axes<2>>("argmax_2");
}
