#include <doctest/doctest.h>

#include "elementwise.hpp"
#include "op_case.hpp"

TEST_CASE("operators and functions of two elements are what they are defined to be, however operands broadcast") {
  gradus_test::truth t;
  gradus_test::operators_table(t);
}
