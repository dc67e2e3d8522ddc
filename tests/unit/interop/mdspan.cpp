#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <gradus/interop/mdspan.hpp>
#include <type_traits>

#if defined(__cpp_lib_mdspan)

namespace gr = gradus;

TEST_CASE("a view as a std::mdspan is the same elements, with the extents in its type") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  auto x = gr::from_values<float, gr::shape<2, 3>>(ctx, {1, 2, 3, 4, 5, 6});
  const auto span = gr::as_mdspan(x.view());
  static_assert(decltype(span)::static_extent(0) == 2 && decltype(span)::static_extent(1) == 3);
  CHECK(span.data_handle() == x.data());
  CHECK(span.data_handle() + span.mapping()(1, 2) == &x(1, 2));
  const auto& same = x;
  static_assert(std::is_same_v<decltype(gr::as_mdspan(same.view()))::reference, const float&>);
}

#endif
