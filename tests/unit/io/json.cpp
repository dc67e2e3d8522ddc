#include <doctest/doctest.h>

#include <gradus/io/json.hpp>
#include <string>

TEST_CASE("JSON is read as the library reads it") {
  const std::string text = R"({"a": [1, -2, 2.5, "x\u00e9", null, true, {"b": {}, "c": []}], "d": {"a": 1}})";
  CHECK(gradus::parse_json(text, "t") == nlohmann::json::parse(text));
  for (const char* value : {"1", "\"x\"", "null", "[]", "{}", "[[1],[2,[3]]]"})
    CHECK(gradus::parse_json(value, "t") == nlohmann::json::parse(value));
}

TEST_CASE("what is not JSON or nests too deep is refused") {
  for (const char* text : {"", "{", "[1,", "{\"a\"}", "\"\xff\"", "1 2", "nul", "{\"a\":1,}"})
    CHECK_THROWS_WITH_AS(gradus::parse_json(text, "t"), doctest::Contains("t: is not JSON"), gradus::error);
  CHECK_NOTHROW(gradus::parse_json(std::string(64, '[') + std::string(64, ']'), "t"));
  CHECK_THROWS_WITH_AS(gradus::parse_json(std::string(65, '[') + std::string(65, ']'), "t"),
                       "t: nests deeper than 64 levels", gradus::error);
}

TEST_CASE("of a key that occurs twice the last one counts where Python reads the file, and it is refused elsewhere") {
  CHECK(gradus::parse_json(R"({"x": {"a": {"b": 1}, "b": 2, "a": {"c": [3]}, "c": 4}})", "t") ==
        nlohmann::json::parse(R"({"x": {"a": {"c": [3]}, "b": 2, "c": 4}})"));
  gradus::detail::strict_json_builder builder;
  CHECK(!builder.parse(R"({"x": {"a": 1, "b": 2, "a": 3}})"));
  CHECK(builder.problem == R"(the key "a" occurs twice in one object)");
  gradus::detail::strict_json_builder escaped;
  CHECK(!escaped.parse(R"({"\u001b": 1, "\u001b": 3})"));
  CHECK(escaped.problem == R"(the key "\u001b" occurs twice in one object)");
}

TEST_CASE("an object of very many keys is read in a time that grows with them") {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{}";
  CHECK(gradus::parse_json(text + "}", "t").size() == 200000);
}
