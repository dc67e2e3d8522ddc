#include <doctest/doctest.h>

#include <clocale>
#include <cmath>
#include <cstdint>
#include <gradus/core/parse_number.hpp>
#include <limits>
#include <string>

namespace gr = gradus;

namespace {

/// What the standard library's from_chars, where it has one, and strtod say.
template <class T>
void reads(const std::string& text, T expected) {
  CAPTURE(text);
  const auto number = gr::parse_number<T>(text), other = gr::detail::parse_by_strtod<T>(text);
  REQUIRE(number);
  REQUIRE(other);
  if (std::isnan(expected)) {
    CHECK(std::isnan(*number));
    CHECK(std::isnan(*other));
  } else {
    CHECK(*number == expected);
    CHECK(*other == expected);
    CHECK(std::signbit(*number) == std::signbit(expected));
    CHECK(std::signbit(*other) == std::signbit(expected));
  }
}

}  // namespace

TEST_CASE("Numbers are read as they were written") {
  reads("0.1", 0.1);
  reads("-0", -0.0);
  reads("3e-4", 3e-4);
  reads("1.7976931348623157e308", std::numeric_limits<double>::max());
  reads("5e-324", std::numeric_limits<double>::denorm_min());
  reads("2.2250738585072011e-308", 2.2250738585072011e-308);
  reads("inf", std::numeric_limits<double>::infinity());
  reads("-inf", -std::numeric_limits<double>::infinity());
  reads("nan", std::nan(""));
  reads("16777217", 16777216.0f);  // halfway between two floats
  reads("1e-45", std::numeric_limits<float>::denorm_min());
  CHECK(gr::parse_number<int>("-12") == -12);
  CHECK(gr::parse_number<std::uint64_t>("18446744073709551615") == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("What is no number, or only begins with one, is none") {
  for (const char* text : {"", " 1", "\t1", "1 ", "+1", "1,5", "0x10", "0X1p3", "1e999", "-1e999", "1e-999", "e5", ".",
                           "-", "--1", "1.2.3", "ten"}) {
    CAPTURE(text);
    CHECK_FALSE(gr::parse_number<double>(text));
    CHECK_FALSE(gr::detail::parse_by_strtod<double>(text));
  }
  CHECK_FALSE(gr::parse_number<float>("1e39"));
  CHECK_FALSE(gr::detail::parse_by_strtod<float>("1e39"));
  CHECK_FALSE(gr::parse_number<int>("1.5"));
  CHECK_FALSE(gr::parse_number<unsigned>("-1"));
  CHECK_FALSE(gr::parse_number<std::uint8_t>("256"));
  const std::string with_zero("1\0002", 3);
  CHECK_FALSE(gr::parse_number<double>(with_zero));
  CHECK_FALSE(gr::detail::parse_by_strtod<double>(with_zero));
}

TEST_CASE("The program's locale changes nothing") {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  for (const char* with_a_comma : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"})
    if (std::setlocale(LC_NUMERIC, with_a_comma) != nullptr) break;
  reads("0.5", 0.5);
  std::setlocale(LC_NUMERIC, before.c_str());
}
