// The code of docs/guide/shapes-and-errors.md. The mistakes it speaks of are in tests/compile_fail/cases.
#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <string>
#include <vector>

namespace gr = gradus;

TEST_CASE("shapes are types") {
  // [shape]
  using image = gr::shape<28, 28>;
  static_assert(image::rank == 2 && image::size == 784);
  static_assert(image::extent(0) == 28 && image::extent(-1) == 28);  // from the front, or from the back
  static_assert(gr::shape<>::size == 1);                             // a scalar has no axes and one element
  // [/shape]

  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  auto x = gr::zeros<float, gr::shape<8, 1, 6>>(ctx);
  auto y = gr::zeros<float, gr::shape<7, 1>>(ctx);
  // [broadcast]
  auto z = x + y;  // [8, 1, 6] + [7, 1]
  static_assert(std::is_same_v<decltype(z)::shape, gr::shape<8, 7, 6>>);
  // [/broadcast]
  CHECK(z(7, 6, 5) == 0);
}

// [own]
template <gr::index_t RowsOfA, gr::index_t RowsOfB>
inline constexpr bool rows_of_a_equal_rows_of_b = RowsOfA == RowsOfB;

auto squared_distance(const auto& a, const auto& b) {
  constexpr gr::index_t rows_a = gr::shape_of<decltype(a)>::extent(0), rows_b = gr::shape_of<decltype(b)>::extent(0);
  static_assert(rows_of_a_equal_rows_of_b<rows_a, rows_b>, "squared_distance(a, b): a and b must have as many rows");
  auto d = a - b;
  return gr::sum(d * d);
}
// [/own]

namespace {
template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const gr::error& e) { return e.what(); }
  return "nothing was thrown";
}
}  // namespace

TEST_CASE("an extent may be known at run time, up to a bound") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const std::vector<float> data{1, 2, 3, 4, 5, 6};
  // [bounded]
  using rows = gr::shape<gr::upto<64>, 3>;
  auto x = gr::from_host<float, rows>(ctx, data.data(), 2);  // two rows of three
  auto w = gr::ones<float, gr::shape<3, 5>>(ctx);
  auto y = gr::mean<0>(gr::matmul(x, w));  // [upto<64>, 5] -> [5]; divides by 2
  // [/bounded]
  CHECK(gr::to_host(y) == std::vector<float>(5, 10.5f));
  const volatile gr::index_t rows_of_another = 65;
  CHECK(message_of([&] { (void)gr::from_host<float, rows>(ctx, data.data(), rows_of_another); }) ==
        "axis 0 is upto<64>: it has 1 to 64 entries, not 65");
  CHECK(message_of([&] { (void)(x + gr::zeros<float, rows>(ctx, 3)); }) ==
        "add: axis 0 has 2 entries in one operand and 3 in another; they must be equal");
  const auto many = gr::zeros<float, gr::shape<gr::upto<72>>>(ctx, 40);
  CHECK(message_of([&] {
          (void)gr::reshape<gr::upto<8>, gr::upto<9>>(many, {4, 10});
        }) == "axis 1 is upto<9>: it has 1 to 9 entries, not 10");
}

TEST_CASE("errors at run time say what the guide says") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::tape tape{ctx};
  const auto v = gr::ones<float, gr::shape<2>>(ctx);
  CHECK(gr::item(squared_distance(v, v)) == 0);

  auto x = tape.variable(v);
  gr::backward(gr::sum(x));
  const auto old = message_of([&] { gr::backward(gr::sum(x * tape.variable(v))); });
  CHECK(old ==
        "this value is from a recording that has ended (backward(), clear() or the tape's destructor); recompute it");

  gr::tape second{ctx};
  const auto two = message_of([&] { (void)(tape.variable(v) + second.variable(v)); });
  CHECK(two == "apply: the operands were recorded on two different tapes; use one tape");

  const auto table = gr::zeros<float, gr::shape<10, 4>>(ctx);
  const auto token = message_of([&] { (void)gr::embedding(gr::full<std::int32_t, gr::shape<3>>(ctx, 12), table); });
  CHECK(token == "embedding(tokens, table): token 12 at position 0 is outside 0 .. 9");

  const auto p = message_of([&] { (void)gr::dropout(v, 1.5); });
  CHECK(p == "dropout(x, p): p is 1.500000; it must be at least 0 and less than 1");

  // [limit]
  gr::limit_resource small(heap, 1 << 20);  // at most 1 MiB at a time
  gr::context tight{stream, small};
  std::string said;
  try {
    auto big = gr::zeros<float, gr::shape<1000, 1000>>(tight);
  } catch (const gr::out_of_memory& e) { said = e.what(); }
  // [/limit]
  CHECK(
      said ==
      "memory limit: asked 4000000 bytes (3.81 MiB) for activation; live 0 bytes (0.00 MiB), limit 1048576 bytes (1.00 "
      "MiB); at most 1048576 bytes (1.00 MiB) would fit");
}
