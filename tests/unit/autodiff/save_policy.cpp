// What the policies of checkpoint regions keep.
#include <doctest/doctest.h>

#include <cstdint>
#include <gradus/autodiff/checkpoint/save_policy.hpp>

using namespace gradus;

namespace {

constexpr region_op applied(std::size_t number, std::size_t flops, std::size_t bytes) {
  return {"op", "op", number, {flops, 0, 0}, bytes};
}

}  // namespace

TEST_CASE("save_costly keeps what takes at least so many operations a byte, and computes again what takes fewer") {
  constexpr save_costly<10> policy;
  static_assert(policy.saves(applied(0, 80, 8)));
  static_assert(policy.saves(applied(0, 81, 8)));
  static_assert(!policy.saves(applied(0, 79, 8)));
  CHECK(policy.saves(applied(0, 80, 8)));
}

TEST_CASE("save_numbered keeps the operations whose bits are set, of the first 64") {
  constexpr save_numbered some{0b101};
  static_assert(some.saves(applied(0, 1, 1)));
  static_assert(!some.saves(applied(1, 1, 1)));
  static_assert(some.saves(applied(2, 1, 1)));
  constexpr save_numbered all{~std::uint64_t{0}};
  static_assert(all.saves(applied(63, 1, 1)));
  static_assert(!all.saves(applied(64, 1, 1)));
  static_assert(!all.saves(applied(65, 1, 1)));
  static_assert(!all.saves(applied(128, 1, 1)));
  CHECK(all.saves(applied(63, 1, 1)));
}
