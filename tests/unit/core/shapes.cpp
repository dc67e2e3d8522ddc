#include <doctest/doctest.h>

#include <gradus/core/shape_algebra.hpp>
#include <type_traits>

using namespace gradus;

template <class A, class B>
constexpr bool same = std::is_same_v<A, B>;

TEST_CASE("a shape knows its rank, size, extents and strides, from the front and from the back") {
  using s = shape<2, 3, 5>;
  CHECK(s::rank == 3);
  CHECK(s::size == 30);
  CHECK(s::extent(0) == 2);
  CHECK(s::extent(-1) == 5);
  CHECK(s::stride(0) == 15);
  CHECK(s::stride(-2) == 5);
  CHECK(s::stride(2) == 1);
}

TEST_CASE("a scalar has no axes and one element") {
  CHECK(shape<>::rank == 0);
  CHECK(shape<>::size == 1);
  CHECK(rows_of<shape<>> == 1);
  CHECK(columns_of<shape<>> == 1);
}

TEST_CASE("shapes broadcast from the back, where 1 and a missing axis fit anything") {
  CHECK(same<broadcast_shape<shape<4, 1, 3>, shape<2, 1>>, shape<4, 2, 3>>);
  CHECK(same<broadcast_shape<shape<>, shape<7>>, shape<7>>);
  CHECK(same<broadcast_shape<shape<1>, shape<1>>, shape<1>>);
  CHECK(same<broadcast_shape<shape<5, 1>, shape<1, 6>, shape<>>, shape<5, 6>>);
  CHECK(can_broadcast<shape<2, 3>, shape<3>>);
  CHECK_FALSE(can_broadcast<shape<2, 3>, shape<2>>);
  CHECK_FALSE(can_broadcast<shape<2, 1>, shape<1, 3>, shape<2, 2>>);
  CHECK_FALSE(can_broadcast<shape<4>, shape<1>, shape<3>>);
}

TEST_CASE("broadcasting does not depend on the order of the operands") {
  CHECK(same<broadcast_shape<shape<2, 1>, shape<3>>, broadcast_shape<shape<3>, shape<2, 1>>>);
  CHECK(can_broadcast<shape<3>, shape<2>> == can_broadcast<shape<2>, shape<3>>);
}

TEST_CASE("reducing removes the axes or keeps them as 1, and an empty list means all of them") {
  using s = shape<2, 3, 5>;
  CHECK(same<reduced_shape<s, axes<1>>, shape<2, 5>>);
  CHECK(same<reduced_shape<s, axes<-1, 0>>, shape<3>>);
  CHECK(same<reduced_shape<s, axes<1>, true>, shape<2, 1, 5>>);
  CHECK(same<reduced_shape<s, axes<>>, shape<>>);
  CHECK(same<reduced_shape<s, axes<>, true>, shape<1, 1, 1>>);
  CHECK(same<reduced_shape<shape<>, axes<>>, shape<>>);
}

TEST_CASE("axes are valid from -rank to rank - 1") {
  CHECK(axes<0, -3, 2>::valid(3));
  CHECK_FALSE(axes<3>::valid(3));
  CHECK_FALSE(axes<-4>::valid(3));
  CHECK(axes<>::valid(0));
}

TEST_CASE("permuting takes the extents in the order asked for, which must name each axis once") {
  using s = shape<2, 3, 5>;
  CHECK(same<permuted_shape<s, 2, 0, 1>, shape<5, 2, 3>>);
  CHECK(is_permutation_of<s, 1, 0, 2>);
  CHECK_FALSE(is_permutation_of<s, 1, 1, 2>);
  CHECK_FALSE(is_permutation_of<s, 0, 1>);
  CHECK_FALSE(is_permutation_of<s, 0, 1, 3>);
  CHECK(is_permutation_of<shape<>>);
}

TEST_CASE("leading, joined and changed extents") {
  using s = shape<2, 3, 5>;
  CHECK(same<leading_shape<s, 2>, shape<2, 3>>);
  CHECK(same<leading_shape<s, 0>, shape<>>);
  CHECK(same<joined_shape<leading_shape<s, 1>, shape<3, 5>>, s>);
  CHECK(same<joined_shape<shape<>, shape<4>>, shape<4>>);
  CHECK(same<with_extent<s, 1, 9>, shape<2, 9, 5>>);
  CHECK(rows_of<s> == 6);
  CHECK(columns_of<s> == 5);
}
