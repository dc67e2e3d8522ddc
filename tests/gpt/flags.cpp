#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "command/flags.hpp"

TEST_CASE("a flag takes every text as it is: brackets, braces and quotes are no lists") {
  for (const std::string word : {"[INST] hi [/INST]", "[a,b]", "[]", "{}", "{a}", "'a'", "\"a,b\"", "a,b", "%%", "]",
                                 "[", "a=[b]", "x\\y", " ", "true"}) {
    CAPTURE(word);
    for (const bool joined : {false, true}) {
      std::string prompt, name;
      std::vector<std::string> files;
      gpt::flag_table flags("A program.", {gpt::text("prompt", prompt, "a text"), gpt::texts("data", files, "files"),
                                           gpt::positional("name", name, "a name")});
      std::vector<std::string> words = {"program", word};
      if (joined) words.push_back("--prompt=" + word);
      else words.insert(words.end(), {"--prompt", word});
      words.insert(words.end(), {"--data", word, word});
      std::vector<char*> argv;
      for (std::string& w : words) argv.push_back(w.data());
      REQUIRE(flags.read(static_cast<int>(argv.size()), argv.data()));
      CHECK(prompt == word);
      CHECK(name == word);
      CHECK(files == std::vector<std::string>{word, word});
    }
  }
}

TEST_CASE("what is not expected is named as it was given") {
  std::string prompt;
  gpt::flag_table flags("A program.", {gpt::text("prompt", prompt, "a text")});
  std::vector<std::string> words = {"program", "[stray]"};
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  CHECK_THROWS_WITH_AS(flags.read(static_cast<int>(argv.size()), argv.data()), doctest::Contains("[stray]"),
                       gradus::bad_flag);
}
