// The version: one number, in the header.
#include <doctest/doctest.h>

#include <gradus/core/version.hpp>
#include <string>

TEST_CASE("the version is that of the macros, and a constant expression") {
  constexpr auto version = gradus::version();
  const std::string parts = std::to_string(GRADUS_VERSION_MAJOR) + "." + std::to_string(GRADUS_VERSION_MINOR) + "." +
                            std::to_string(GRADUS_VERSION_PATCH);
  CHECK(version == parts);
  static_assert(GRADUS_VERSION / 10000 == GRADUS_VERSION_MAJOR && GRADUS_VERSION % 100 == GRADUS_VERSION_PATCH);
#if GRADUS_VERSION < 100
  FAIL("the preprocessor reads the version as a number");
#endif
}
