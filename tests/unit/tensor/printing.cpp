#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/gradus.hpp>
#include <limits>
#include <sstream>
#include <string>

namespace gr = gradus;

namespace {
struct bench {
  gr::stream s;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{s, heap};
};
}  // namespace

TEST_CASE("a matrix prints its rows one below the other, in columns") {
  bench b;
  const auto x = gr::from_values<float, gr::shape<2, 3>>(b.ctx, {1, 2, 3, -4, 5, 60});
  CHECK(gr::to_string(x) == "[[ 1.,  2.,  3.],\n [-4.,  5., 60.]] f32 shape<2, 3>");
}

TEST_CASE("fractions print with four digits, or as many as asked for") {
  bench b;
  const auto x = gr::from_values<double, gr::shape<2>>(b.ctx, {0.5, 12.25});
  CHECK(gr::to_string(x) == "[ 0.5000, 12.2500] f64 shape<2>");
  CHECK(gr::to_string(x, {.digits = 2}) == "[ 0.50, 12.25] f64 shape<2>");
}

TEST_CASE("a blank line parts the matrices of a stack") {
  bench b;
  const auto x = gr::arange<std::int32_t, 4>(b.ctx);
  const gr::tensor<std::int32_t, gr::shape<2, 2, 1>> stack(x.storage());
  CHECK(gr::to_string(stack) == "[[[0],\n  [1]],\n\n [[2],\n  [3]]] i32 shape<2, 2, 1>");
}

TEST_CASE("long axes show their ends") {
  bench b;
  CHECK(gr::to_string(gr::arange<std::int32_t, 2000>(b.ctx)) ==
        "[   0,    1,    2, ..., 1997, 1998, 1999] i32 shape<2000>");
  const auto square = gr::to_string(gr::zeros<float, gr::shape<40, 40>>(b.ctx), {.edge = 1});
  CHECK(square == "[[0., ..., 0.],\n ...,\n [0., ..., 0.]] f32 shape<40, 40>");
}

TEST_CASE("a long row goes on in the next line, below its first element") {
  bench b;
  CHECK(gr::to_string(gr::arange<std::int32_t, 6>(b.ctx), {.width = 9}) == "[0, 1, 2,\n 3, 4, 5] i32 shape<6>");
  CHECK(gr::to_string(gr::arange<std::int32_t, 6>(b.ctx), {.width = 8}) == "[0, 1,\n 2, 3,\n 4, 5] i32 shape<6>");
}

TEST_CASE("scalars, booleans, 16-bit floats, NaN and infinities") {
  bench b;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(gr::to_string(gr::full<float, gr::shape<>>(b.ctx, 2.5f)) == "2.5000 f32 shape<>");
  CHECK(gr::to_string(gr::from_values<bool, gr::shape<2>>(b.ctx, {true, false})) == "[ true, false] bool shape<2>");
  CHECK(gr::to_string(gr::full<gr::bf16, gr::shape<1>>(b.ctx, gr::bf16(1.5f))) == "[1.5000] bf16 shape<1>");
  CHECK(gr::to_string(gr::full<gr::f16, gr::shape<1>>(b.ctx, gr::f16(-3.0f))) == "[-3.] f16 shape<1>");
  CHECK(gr::to_string(gr::full<std::uint8_t, gr::shape<1>>(b.ctx, 65)) == "[65] u8 shape<1>");
  CHECK(gr::to_string(gr::from_values<float, gr::shape<3>>(b.ctx, {nan, infinity, -infinity})) ==
        "[ nan,  inf, -inf] f32 shape<3>");
  CHECK(gr::to_string(gr::from_values<float, gr::shape<2>>(b.ctx, {1e-6f, 2.0f})) ==
        "[1.0000e-06, 2.0000e+00] f32 shape<2>");
}

TEST_CASE("empty tensors, parameters, traced values and tensors of meta say what they are") {
  bench b;
  CHECK(gr::to_string(gr::tensor<float, gr::shape<2>>()) == "empty f32 shape<2>");
  gr::param<gr::on<gr::cpu>, 1> w;
  CHECK(gr::to_string(w) == "empty f32 shape<1> param");
  gr::tape tape{b.ctx};
  CHECK(gr::to_string(tape.watch(gr::zeros<float, gr::shape<1>>(b.ctx))) == "[0.] f32 shape<1> traced");
  gr::meta_stream ms;
  gr::accounting account;
  gr::context on_meta{ms, account};
  CHECK(gr::to_string(gr::empty<float, gr::shape<2>>(on_meta)) == "meta f32 shape<2>");
}

TEST_CASE("as many digits are printed as are asked for") {
  bench b;
  const std::string long_third = gr::to_string(gr::full<double, gr::shape<>>(b.ctx, 1.0 / 3), {.digits = 600});
  CHECK(long_third.size() == 2 + 600 + std::string(" f64 shape<>").size());
  CHECK(long_third.substr(0, 6) == "0.3333");
  CHECK(long_third.substr(599) == "000 f64 shape<>");
  const std::string scientific = gr::to_string(gr::full<double, gr::shape<>>(b.ctx, 1e-300), {.digits = 600});
  CHECK(scientific.substr(598) == "6165e-300 f64 shape<>");
  CHECK(gr::to_string(gr::full<double, gr::shape<>>(b.ctx, 1.5), {.digits = 0}) == "2 f64 shape<>");
}

TEST_CASE("streams print what to_string gives") {
  bench b;
  std::ostringstream out;
  out << gr::arange<std::int64_t, 2>(b.ctx) << " and more";
  CHECK(out.str() == "[0, 1] i64 shape<2> and more");
}
