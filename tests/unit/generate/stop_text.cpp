#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gradus/generate/stop_text.hpp>

#include "../../support/message_of.hpp"
#include "../../support/seed.hpp"

namespace gr = gradus;

TEST_CASE(
    "what comes before a stop text is let through whole, however the bytes are cut, and nothing of what comes after") {
  std::mt19937 engine(gradus_test::fresh_seed());
  const auto any_text = [&](std::size_t shortest, std::size_t longest) {
    std::string text(shortest + engine() % (longest - shortest + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + engine() % 2);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::string text = any_text(0, 40);
    std::vector<std::string> stops(engine() % 3);
    for (std::string& s : stops) s = any_text(1, 7);
    // The text that ends first; of those that end together, the longest.
    std::string wanted = text;
    bool found = false;
    for (std::size_t end = 1; end <= text.size() && !found; ++end)
      for (const std::string& s : stops)
        if (text.substr(0, end).ends_with(s)) {
          const std::string before = text.substr(0, end - s.size());
          if (!found || before.size() < wanted.size()) wanted = before;
          found = true;
        }
    gr::stop_text_finder finder(stops);
    std::string passed;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t some = 1 + engine() % 3;
      passed += finder.add(std::string_view(text).substr(at, some));
      at += some;
    }
    REQUIRE(finder.found() == found);
    stopped += found ? 1 : 0;
    REQUIRE(wanted.starts_with(passed));
    passed += finder.finish();
    CAPTURE(text);
    REQUIRE(passed == wanted);
  }
  CHECK(stopped > 100);
}

TEST_CASE("bytes that no stop text can begin with are not held back") {
  gr::stop_text_finder finder({"END"});
  CHECK(finder.add("the E") == "the ");
  CHECK(finder.add("N") == "");
  CHECK(finder.add("x") == "ENx");
  CHECK(finder.add("EEND more") == "E");
  CHECK(finder.found());
  CHECK(finder.add("x") == "");
  CHECK(finder.finish() == "");
  CHECK(gradus_test::message_of([] {
          gr::stop_text_finder({"a", ""});
        }) == "stop_text_finder: a stop text is empty; it must have at least one byte");
}
