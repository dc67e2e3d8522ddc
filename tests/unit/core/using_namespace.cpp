#include <doctest/doctest.h>
#include <strings.h>  // POSIX's ::index

#include <gradus/core/shape.hpp>

using namespace gradus;

TEST_CASE("names of gradus do not collide with POSIX's under using namespace gradus") {
  const index_t rows = shape<2, 3>::extent(0);
  CHECK(rows == 2);
}
