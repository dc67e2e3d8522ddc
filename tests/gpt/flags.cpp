#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "../support/scratch_folder.hpp"
#include "flags/flags.hpp"

namespace {

void read(gpt::flag_table& flags, std::vector<std::string> words, const std::string& config = "") {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  flags.read(static_cast<int>(argv.size()), argv.data(), config);
}

/// A table of a few flags, and what they are read into.
struct small_table {
  std::string kind = "one", config;
  std::vector<std::string> files;
  int size = 0;
  double rate = 0.5;
  bool save = true;
  gpt::flag_table flags = gpt::flag_table(
      "A program.",
      {gpt::choice("kind", kind, {"one", "two"}, "a word"), gpt::texts("data", files, "files"),
       gpt::whole("size", size, 1, 100, "a number").without_default(), gpt::positive("rate", rate, "a number"),
       gpt::on_off("save", save, "or not"), gpt::text("config", config, "a file").only_once()},
      {}, {{"kind", {"rate"}}, {"size=7", {"data"}}});
};

}  // namespace

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

TEST_CASE("a value that is fixed is the only one, on a command line and in a file") {
  const gradus_test::scratch_folder folder;
  const std::string file = (folder.path / "config").string();
  small_table t;
  t.flags.fix("size", "4");
  read(t.flags, {"--size", "04"});
  CHECK(t.size == 4);
  CHECK_THROWS_WITH_AS(read(t.flags, {"--size=5"}),
                       doctest::Contains("--size must be 4, which this program was compiled for"), gradus::bad_flag);
  std::ofstream(file) << "size = 5\n";
  CHECK_THROWS_WITH_AS(read(t.flags, {}, file), doctest::Contains((file + ": --size must be 4").c_str()),
                       gradus::bad_flag);
  std::ofstream(file) << "colour = red\n";
  CHECK_THROWS_WITH_AS(read(t.flags, {}, file), doctest::Contains((file + ": there is no flag 'colour'").c_str()),
                       gradus::bad_flag);
}

TEST_CASE("the words of a table give another one what it was given") {
  small_table from, to;
  read(from.flags, {"--data", "a b", "--data=--c]", "--size", "3", "--no-save"});
  read(to.flags, from.flags.words());
  CHECK(to.files == std::vector<std::string>{"a b", "--c]"});
  CHECK(to.size == 3);
  CHECK_FALSE(to.save);
  CHECK_FALSE(to.flags.given("rate"));
  to.flags.set_defaults("size=9 rate=0.25");
  CHECK(to.size == 3);
  CHECK(to.rate == 0.25);
}

TEST_CASE("a flag on the command line drops from a file what belonged to its former value") {
  const gradus_test::scratch_folder folder;
  const std::string file = (folder.path / "config").string();
  std::ofstream(file) << "kind = one\nrate = 3\ndata = a\nsize = 2\n";
  small_table same, other;
  read(same.flags, {"--size", "8"}, file);
  CHECK(same.rate == 3);
  CHECK(same.size == 8);
  CHECK(same.files.size() == 1);
  read(other.flags, {"--kind", "two", "--size", "7"}, file);
  CHECK(other.rate == 0.5);
  CHECK(other.files.empty());
}
