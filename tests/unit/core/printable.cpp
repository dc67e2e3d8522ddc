#include <doctest/doctest.h>

#include <gradus/core/printable.hpp>
#include <string>
#include <string_view>

TEST_CASE("control characters and broken UTF-8 are shown as numbers, and text stays as it is") {
  using gradus::line_ends, gradus::printable;
  CHECK(printable("plain, \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") == "plain, \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK(printable("\x1b[31mred\r\x7f\t.") == "\\x1b[31mred\\x0d\\x7f\t.");
  CHECK(printable("a\nb") == "a\\x0ab");
  CHECK(printable("a\nb", line_ends::kept) == "a\nb");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  CHECK(printable("\xC2\x9B"
                  "31m") == "\\xc2\\x9b31m");  // the CSI of terminals that know C1
  CHECK(printable("\x9B\xFF\xC0\x80\xED\xA0\x80") == "\\x9b\\xff\\xc0\\x80\\xed\\xa0\\x80");
  CHECK(printable("cut \xE2\x82") == "cut \\xe2\\x82");
}

TEST_CASE("a text that comes byte by byte is shown like the whole") {
  const std::string text = "a\xC3\xA9 \xE2\x82\xAC \xE2\x28 \x1b \xF0\x9F\x98\x80 \xF0\x9F";
  gradus::printable_text parts;
  std::string shown;
  for (const char c : text) shown += parts.add({&c, 1});
  shown += parts.finish();
  CHECK(shown == gradus::printable(text));
  CHECK(parts.finish() == "");
}
