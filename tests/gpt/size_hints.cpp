#include <doctest/doctest.h>

#include <string>

#include "gpt/size_hints.hpp"

TEST_CASE("a size that wastes is told with the better one") {
  CHECK(gpt::rounded_up(33, 16) == 48);
  CHECK(gpt::wasted_share(48, 16) == 0);
  CHECK(gpt::wasted_share(33, 16) == doctest::Approx(15.0 / 48));
  CHECK(gpt::size_hint("a head width", 33, 16, "take 48") ==
        "hint: a head width of 33 takes about as long as one of 48; take 48");
  CHECK(gpt::size_hint("a head width", 32, 16, "") == "");
  CHECK(gpt::size_hint("a vocabulary", 50257, 64, "") == "");  // 0.1 % is little
  CHECK(gpt::size_hint("a vocabulary", 257, 64, "x") != "");
}
