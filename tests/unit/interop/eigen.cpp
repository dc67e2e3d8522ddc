#include <doctest/doctest.h>

#if __has_include(<Eigen/Core>)

#include <gradus/gradus.hpp>
#include <gradus/interop/eigen.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gr = gradus;

namespace {

struct workplace {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context<gr::cpu> ctx{stream, stats};
};

template <class X>
concept has_map = requires { gr::as_eigen(std::declval<X>()); };

}  // namespace

TEST_CASE("a tensor and its Eigen map are the same elements, row by row") {
  workplace at;
  auto x = gr::from_values<float, gr::shape<2, 3>>(at.ctx, {1, 2, 3, 4, 5, 6});
  const auto before = at.stats.all().live;
  auto m = gr::as_eigen(x);
  CHECK(m.data() == x.data());
  CHECK(m(0, 2) == 3);
  CHECK(m(1, 0) == 4);
  m(1, 2) = 60;
  CHECK(x(1, 2) == 60);
  m.row(0) *= 2;
  CHECK(gr::to_host(x) == std::vector<float>{2, 4, 6, 4, 5, 60});
  CHECK(at.stats.all().live == before);
  using map = decltype(m);
  static_assert(map::RowsAtCompileTime == 2 && map::ColsAtCompileTime == 3 && map::IsRowMajor == 1);
}

TEST_CASE("a vector is a column; a matrix of one column or one row keeps its shape") {
  workplace at;
  auto v = gr::arange<double, 4>(at.ctx);
  CHECK(gr::as_eigen(v).cols() == 1);
  CHECK(gr::as_eigen(v).dot(gr::as_eigen(v)) == 14);
  auto column = gr::reshape<4, 1>(v);
  auto row = gr::reshape<1, 4>(v);
  CHECK((gr::as_eigen(row) * gr::as_eigen(column))(0, 0) == 14);
  CHECK((gr::as_eigen(column) * gr::as_eigen(row))(3, 2) == 6);
}

TEST_CASE("maps are as const as their tensors, and temporaries have none") {
  using tensor = gr::tensor<float, gr::shape<2, 2>>;
  static_assert(std::is_same_v<decltype(gr::as_eigen(std::declval<const tensor&>())),
                               Eigen::Map<const Eigen::Matrix<float, 2, 2, Eigen::RowMajor>>>);
  static_assert(std::is_same_v<decltype(gr::as_eigen(std::declval<tensor&>())),
                               Eigen::Map<Eigen::Matrix<float, 2, 2, Eigen::RowMajor>>>);
  static_assert(has_map<tensor&> && has_map<const tensor&>);
  static_assert(!has_map<tensor> && !has_map<const tensor>);
  const tensor nothing;
  CHECK_THROWS_AS(gr::as_eigen(nothing), gr::error);
}

TEST_CASE("an Eigen expression becomes a tensor of its shape, in one allocation") {
  workplace at;
  Eigen::Matrix<float, 2, 3> m;  // column-major
  m << 1, 2, 3, 4, 5, 6;
  const auto requests = at.stats.all().allocations;
  const auto x = gr::from_eigen(at.ctx, 2 * m);
  static_assert(std::is_same_v<decltype(x), const gr::tensor<float, gr::shape<2, 3>>>);
  CHECK(gr::to_host(x) == std::vector<float>{2, 4, 6, 8, 10, 12});
  CHECK(at.stats.all().allocations == requests + 1);
  CHECK(gr::to_host(gr::from_eigen(at.ctx, m.row(1))) == std::vector<float>{4, 5, 6});
  CHECK(gr::to_host(gr::from_eigen(at.ctx, m.col(1))) == std::vector<float>{2, 5});
  CHECK(gr::to_host(gr::from_eigen<gr::shape<1, 3>>(at.ctx, m.row(1))) == std::vector<float>{4, 5, 6});
  CHECK(gr::to_host(gr::from_eigen(at.ctx, m.transpose())) == std::vector<float>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("a matrix with sizes of run time fits the named shape or is refused") {
  workplace at;
  Eigen::MatrixXd m(2, 2);
  m << 1, 2, 3, 4;
  CHECK(gr::to_host(gr::from_eigen<gr::shape<2, 2>>(at.ctx, m)) == std::vector<double>{1, 2, 3, 4});
  std::string said;
  try {
    auto x = gr::from_eigen<gr::shape<2, 3>>(at.ctx, m);
  } catch (const gr::error& e) { said = e.what(); }
  CHECK(said == "from_eigen<Shape>(ctx, m): m is 2 x 2; Shape is 2 x 3");
}

#endif
