// Command lines as scripts write them whose variables are unset: values left out, empty or doubled.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gpt/options.hpp"
#include "gpt/tools/tool_flags.hpp"

namespace {

/// What somebody typed, and what was meant.
struct typed_line {
  std::vector<std::string> words;
  std::map<std::string, std::vector<std::string>> meant;  ///< by flag
  bool is_whole = true;                                   ///< no value is missing or one too many
};

/// What a row makes of a word; false if it refuses it.
bool takes(const gpt::flag& f, std::string& word) {
  try {
    f.read(word);
    return true;
  } catch (const gradus::bad_flag&) { return false; }
}

/// A line of some flags of a table: `scratch` is another one, whose values may change.
typed_line draw(const gpt::flag_table& flags, const gpt::flag_table& scratch, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  typed_line line;
  std::string place;
  for (int i = 0; i < 5; ++i) {
    const gpt::flag& f = flags.rows()[below(flags.rows().size())];
    if (f.name == "config") continue;
    std::vector<std::string>& meant = line.meant[f.name];
    const std::string name = "--" + f.name;
    if (f.kind == gpt::flag::on_off) {
      const bool by_default = f.now() == "true";
      line.words.push_back((by_default ? "--no-" : "--") + f.name);
      meant.push_back(by_default ? "false" : "true");
      continue;
    }
    const gpt::flag& row = *std::ranges::find(scratch.rows(), f.name, &gpt::flag::name);
    std::vector<std::pair<std::string, std::string>> values;  // as written, and as read
    for (const char* const written :
         {"1",      "3",    "0.5",      "007",       "two words",  "-",      "- a list", "cuda:1", "5m",
          "600MiB", "0",    "wsd",      "page.html", "lion",       "llama",  "a,b",      "[x]",    "nano",
          "int8",   "-0.5", "shuffled", "skip",      "bf16_mixed", "states", "chatml"}) {
      std::string read = written;
      if (takes(row, read)) values.emplace_back(written, read);
    }
    if (f.kind == gpt::flag::positional) {
      if (place.empty()) meant = {place = values[below(values.size())].first};
      continue;
    }
    const auto& [written, read] = values.empty() ? std::pair(f.now(), f.now()) : values[below(values.size())];
    const auto put = [&](const std::vector<std::string>& words) {
      line.words.insert(line.words.end(), words.begin(), words.end());
    };
    std::string nothing;
    switch (below(12)) {
      case 0:  // $UNSET
        put({name});
        line.is_whole = false;
        break;
      case 1:  // --seed=$UNSET, "$UNSET"
        if (below(2) == 0) put({name + "="});
        else put({name, ""});
        if (takes(row, nothing)) meant.emplace_back();
        else line.is_whole = false;
        break;
      case 2:  // doubled
        meant.push_back(read);
        if (below(2) == 0) {
          put({name + "=" + written, written});
          line.is_whole = false;
        } else {
          put({name, written, written});
          if (f.kind == gpt::flag::list) meant.push_back(read);
          else line.is_whole = false;
        }
        break;
      default:
        meant.push_back(read);
        if (below(2) == 0) put({name + "=" + written});
        else put({name, written});
    }
  }
  if (place.empty()) {
    for (const gpt::flag& f : flags.rows())
      if (f.kind == gpt::flag::positional) line.meant[f.name] = {place = "some model"};
  }
  if (place.empty()) return line;
  if (below(2) == 0) line.words.insert(line.words.begin(), place);
  else line.words.insert(line.words.end(), {"--", place});
  return line;
}

/// Whether a table that has read a line has what was meant.
bool has(const gpt::flag_table& flags, const typed_line& line) {
  return std::ranges::all_of(flags.rows(), [&](const gpt::flag& f) {
    const auto found = line.meant.find(f.name);
    if (found == line.meant.end() || found->second.empty()) return f.given.empty();
    return f.kind == gpt::flag::list ? f.given == found->second
                                     : !f.given.empty() && f.given.back() == found->second.back();
  });
}

/// Draws lines of a table, and returns how many of them were read. `with` calls its argument with a fresh table.
template <class With>
int read_lines(int count, unsigned seed, const With& with) {
  std::mt19937 random(seed);
  int read = 0;
  for (int i = 0; i < count; ++i) {
    const typed_line line = with([&](auto& a) { return with([&](auto& b) { return draw(a, b, random); }); });
    std::string shown;
    for (const std::string& w : line.words) shown += "'" + w + "' ";
    CAPTURE(shown);
    std::vector<std::string> words = line.words;
    words.insert(words.begin(), "program");
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    with([&](gpt::flag_table& flags) {
      try {
        flags.read(static_cast<int>(argv.size()), argv.data());
        CHECK(line.is_whole);
        CHECK(has(flags, line));
        ++read;
      } catch (const gradus::bad_flag& e) {
        const std::string what = e.what();
        CAPTURE(what);
        CHECK((!line.is_whole || what.find(": give one of them") != what.npos || what.ends_with("is required")));
        for (const char* const raw : {"stoi", "stol", "stod", "bad_", "basic_string", "CLI"})
          CHECK(what.find(raw) == what.npos);
      }
      return 0;
    });
  }
  return read;
}

}  // namespace

TEST_CASE("of 2,000 command lines with values left out, empty or doubled, none runs with another meaning") {
  const int of_trainer = read_lines(1000, 1, [](const auto& f) {
    gpt::command_line line;
    return f(line.flags);
  });
  const int of_sample = read_lines(1000, 2, [](const auto& f) {
    gpt::sample_options o;
    gpt::flag_table flags = o.table();
    return f(flags);
  });
  CHECK(of_trainer > 200);
  CHECK(of_sample > 200);
}
