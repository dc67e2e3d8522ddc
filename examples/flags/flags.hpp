#pragma once
// A program's flags as one table, which drives the command line, --config, the config of a run, --help and the command
// line of another program.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/core/byte_size.hpp>
#include <gradus/core/parse_number.hpp>
#include <gradus/io/config_file.hpp>
#include <gradus/run/program.hpp>

namespace gpt {

namespace gr = gradus;

/// One flag: a row of the table. The functions below make rows.
struct flag {
  enum kind_type { value, list, on_off, positional };

  std::string name;                        ///< "lr" for --lr
  std::function<void(std::string&)> read;  ///< one value, into the member; throws gr::bad_flag
  std::function<std::string()> now;        ///< what the member holds; empty: nothing to show
  std::string text;                        ///< for --help
  kind_type kind = value;
  bool show_default = true, is_required = false;
  /// Written as given, or as an absolute path; read only; refused; or skipped, where an earlier version has written it.
  enum { repeated, file, read_only, once, skipped } in_config = repeated;
  std::vector<std::string> given = {};  ///< values that were read, in order

  flag without_default() && { return show_default = false, std::move(*this); }  ///< 0 means that it is not given
  flag required() && { return is_required = true, std::move(*this); }
  flag path() && {
    in_config = file;
    read = [read = read, name = name](std::string& word) {
      read(word);
      gr::check_flag(!word.empty(), "--" + name, "the name of a file", "''");
    };
    return std::move(*this);
  }
  flag only_once() && { return in_config = once, std::move(*this); }     ///< never part of a config
  flag unsaved() && { return in_config = read_only, std::move(*this); }  ///< never part of a run's config
  flag skipped_in_config() && { return in_config = skipped, std::move(*this); }
};

inline std::string quoted_if_empty(const std::string& text) { return text.empty() ? "''" : text; }

/// A whole number in decimal digits.
template <class Int>
flag whole(const std::string& name, Int& member, std::type_identity_t<Int> least, std::type_identity_t<Int> most,
           std::string text) {
  return {name,
          [=, &member](std::string& word) {
            const auto n = gr::parse_number<Int>(word);
            gr::check_flag(n && *n >= least && *n <= most, "--" + name,
                           "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
                           quoted_if_empty(word));
            word = std::to_string(member = *n);
          },
          [&member] { return std::to_string(member); }, std::move(text)};
}

/// A finite number in decimal digits, such as 0.1 or 3e-4, for which `holds`: `must` in words.
inline flag number(const std::string& name, double& member, const std::string& must, bool (*holds)(double),
                   std::string text) {
  return {name,
          [=, &member](std::string& word) {
            const auto x = gr::parse_number<double>(word);
            gr::check_flag(x && std::isfinite(*x) && holds(*x), "--" + name, must, quoted_if_empty(word));
            member = *x;
          },
          [&member] { return (std::ostringstream() << member).str(); }, std::move(text)};
}
inline flag positive(const std::string& name, double& member, std::string text) {
  return number(
      name, member, "a positive number", [](double x) { return x > 0; }, std::move(text));
}
inline flag not_negative(const std::string& name, double& member, std::string text) {
  return number(
      name, member, "0 or more", [](double x) { return x >= 0; }, std::move(text));
}
inline flag below_1(const std::string& name, double& member, std::string text) {
  return number(
      name, member, "at least 0 and below 1", [](double x) { return x >= 0 && x < 1; }, std::move(text));
}

inline flag text(const std::string& name, std::string& member, std::string text) {
  return {name, [&member](std::string& word) { member = word; }, [&member] { return member; }, std::move(text)};
}
/// A size of memory, such as 600MiB.
inline flag size(const std::string& name, std::string& member, std::string text) {
  return {name,
          [=, &member](std::string& word) {
            try {
              gr::parse_bytes(word);
            } catch (const gr::error& e) { throw gr::bad_flag("--" + name + ": " + e.what()); }
            member = word;
          },
          [&member] { return member; }, std::move(text)};
}
/// A text that must not be empty: `must` says what it is.
inline flag named(const std::string& name, std::string& member, const std::string& must, std::string text) {
  return {name,
          [=, &member](std::string& word) {
            gr::check_flag(!word.empty(), "--" + name, must, "''");
            member = word;
          },
          [&member] { return member; }, std::move(text)};
}
/// One of these words.
inline flag choice(const std::string& name, std::string& member, const std::vector<std::string>& words,
                   std::string text) {
  std::string must = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) must += (i + 1 < words.size() ? ", " : " or ") + words[i];
  return {name,
          [=, &member](std::string& word) {
            gr::check_flag(std::ranges::find(words, word) != words.end(), "--" + name, must, quoted_if_empty(word));
            member = word;
          },
          [&member] { return member; }, std::move(text)};
}
/// The name of a file or a folder, without a flag before it; it must be given.
inline flag positional(const std::string& name, std::string& member, std::string about) {
  flag f = text(name, member, std::move(about));
  f.read = [=, &member](std::string& word) {
    gr::check_flag(!word.empty(), name, "the name of a file or a folder", "''");
    member = word;
  };
  f.kind = flag::positional;
  return std::move(f).required();
}
/// Texts, several at once.
inline flag texts(const std::string& name, std::vector<std::string>& member, std::string text) {
  return {name, [&member](std::string& word) { member.push_back(word); }, [] { return std::string(); }, std::move(text),
          flag::list};
}
inline flag on_off(const std::string& name, bool& member, std::string text) {
  return {name, [&member](std::string& word) { member = word == "true"; },
          [&member] { return std::string(member ? "true" : "false"); }, std::move(text), flag::on_off};
}
/// "cpu", or "cuda" with the number of a GPU, such as cuda:1. No number is part of a run's config.
inline flag device_flag(std::string& chosen, int& gpu) {
  const std::string must = "cpu or cuda, or a GPU by number, such as cuda:1";
  return {"device",
          [=, &chosen, &gpu](std::string& word) {
            const bool numbered = word.starts_with("cuda:");
            const auto n = gr::parse_number<int>(numbered ? std::string_view(word).substr(5) : "0");
            gr::check_flag(word == "cpu" || word == "cuda" || (numbered && n && *n >= 0 && *n < 1000), "--device", must,
                           quoted_if_empty(word));
            chosen = word = numbered ? "cuda" : word;
            gpu = *n;
          },
          [&chosen] { return chosen; }, must};
}
inline flag optimizer_flag(std::string& member) {
  return choice("optimizer", member, {"adamw", "sgd", "lion", "adafactor", "adamw_8bit", "any_precision_adamw", "muon"},
                "adamw, sgd (with momentum), lion, adafactor, adamw_8bit, any_precision_adamw or muon");
}
inline flag threads_flag(int& threads) { return whole("threads", threads, 0, 4096, "threads; 0: one a core"); }
inline flag seed_flag(std::uint64_t& seed, std::string text) {
  return whole("seed", seed, 0, std::numeric_limits<std::uint64_t>::max(), std::move(text));
}

/// Between saves: seconds, or steps; 0: not by that.
struct pace {
  double seconds = 0;
  long long steps = 0;
};
/// The value of --save-every. "100": steps; "30s", "5m", "1h": time. Throws gr::bad_flag.
inline pace read_pace(const std::string& text) {
  const char unit = text.empty() ? ' ' : text.back();
  const double seconds = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
  const std::string_view digits(text.data(), text.size() - (seconds > 0 ? 1 : 0));
  const double number = digits.find_first_of("eE") == digits.npos ? gr::parse_number<double>(digits).value_or(-1) : -1;
  const bool whole = number == std::floor(number) && number <= 4294967295.0;
  gr::check_flag(number >= 0 && std::isfinite(number) && (seconds > 0 || whole), "--save-every",
                 "a number of steps, such as 100, or a time, such as 30s, 5m or 1h", quoted_if_empty(text));
  return {number * seconds, seconds > 0 ? 0 : static_cast<long long>(number)};
}

/// Two flags of which one replaces the other: given on the command line, it drops the other from a --config.
struct alternative {
  const char *one, *other;
  const char* reason;  ///< why only one may be given; null: both may
};
/// A flag that, given on the command line, drops others from a --config: those that belong to its former value.
struct replacement {
  std::string flag;  ///< "optimizer", or with a value: "device=cpu"
  std::vector<std::string> dropped;
};

/// Whether a word of a command line can only be a flag: --NAME, --NAME=VALUE, -h, or --, which ends the flags. A value
/// that looks like one is written --FLAG=VALUE.
bool is_flag_word(std::string_view word);
/// The word after argv[i], which is a flag that takes a value; i becomes its index. Throws gr::bad_flag if there is
/// none, or it is a flag itself.
std::string value_after(int argc, char** argv, int& i);
/// The value of a flag, such as "--out", on a command line that is still to be read; nothing if it is not given. Throws
/// gr::bad_flag for a flag without a value.
std::optional<std::string> find_value(int argc, char** argv, std::string_view flag);
/// Whether a command line asks for help.
bool asks_for_help(int argc, char** argv);

class flag_table {
 public:
  flag_table(std::string what, std::vector<flag> flags, std::vector<alternative> alternatives = {},
             std::vector<replacement> replacements = {})
      : what_(std::move(what)),
        flags_(std::move(flags)),
        alternatives_(std::move(alternatives)),
        replacements_(std::move(replacements)) {}

  /// Fixes the value of a flag: the program was compiled for it, and refuses another.
  void fix(const std::string& name, std::string value) {
    flag& f = *find(name);
    f.read(value);
    f.given = {value};
    f.read = [read = f.read, name, value](std::string& word) {
      read(word);
      gr::check_flag(word == value, "--" + name,
                     value + ", which this program was compiled for (scripts/gradus.sh compiles others)", word);
    };
  }
  /// Reads a command line, after the files that its --config names and `run_config`, unless that is empty; what the
  /// command line says takes precedence. Throws gr::bad_flag; returns false if --help was asked for and printed.
  bool read(int argc, char** argv, const std::string& run_config = "");
  const std::vector<flag>& rows() const { return flags_; }
  bool given(std::string_view name) const {
    const flag* f = find(name);
    return f != nullptr && !f->given.empty();
  }
  /// Gives a flag a value, as a command line would.
  void set(const std::string& name, std::string value) {
    flag& f = *find(name);
    f.read(value);
    f.given = {std::move(value)};
  }
  /// Gives flags that were not given values, from words NAME=VALUE with blanks between.
  void set_defaults(const std::string& words) {
    std::istringstream text(words);
    for (std::string word; text >> word;)
      if (const auto at = word.find('='); !given(word.substr(0, at))) set(word.substr(0, at), word.substr(at + 1));
  }
  /// As if a flag had not been given; its member keeps its value.
  void forget(const std::string& name) { find(name)->given.clear(); }
  /// The value that a flag was given; empty if it was not.
  std::string value(const std::string& name) const {
    const flag* f = find(name);
    return f == nullptr || f->given.empty() ? "" : f->given.back();
  }
  /// The command line that gives the flags what they were given, for another program with this table.
  std::vector<std::string> words() const {
    std::vector<std::string> all, places;
    for (const flag& f : flags_) {
      if (f.given.empty() || f.name == "config") continue;
      if (f.kind == flag::positional) places.push_back(f.given.back());
      else if (f.kind == flag::on_off) all.push_back((f.given.back() == "true" ? "--" : "--no-") + f.name);
      else if (f.kind != flag::list) all.push_back("--" + f.name + "=" + f.given.back());
      else
        for (const std::string& value : f.given) all.push_back("--" + f.name + "=" + value);
    }
    if (!places.empty()) all.emplace_back("--");
    all.insert(all.end(), places.begin(), places.end());
    return all;
  }
  /// The entries that repeat this run: every flag, given or not, with files by absolute names.
  gr::config_entries config() const {
    gr::config_entries all;
    for (const flag& f : flags_) {
      if (f.in_config != flag::repeated && f.in_config != flag::file) continue;
      if (f.given.empty()) {
        if (const std::string v = f.now(); !v.empty() && (f.show_default || v != "0") && !replaced(f))
          all.emplace_back(f.name, v);
      } else {
        const std::size_t first = f.kind == flag::list ? 0 : f.given.size() - 1;
        for (const std::string& v : std::span(f.given).subspan(first))
          all.emplace_back(f.name, f.in_config == flag::file ? std::filesystem::absolute(v).string() : v);
      }
    }
    gr::config_text(all);  // throws if a file's name cannot be part of a config
    return all;
  }

 private:
  // A value for a flag. `origin` is what a message about a value from a file begins with.
  struct assignment {
    flag* to;
    std::string value, origin;
  };

  std::vector<assignment> assignments_of(int argc, char** argv);
  std::vector<assignment> assignments_in(const std::string& from, const std::string& file,
                                         const std::vector<std::string>& names);
  void print_help(const std::string& program);
  bool replaced_by(std::string_view name, const std::vector<std::string>& names) const {
    return std::ranges::any_of(names, [&](const std::string& given) {
      return given == name ||
             std::ranges::any_of(alternatives_,
                                 [&](const alternative& a) {
                                   return (given == a.one && name == a.other) || (given == a.other && name == a.one);
                                 }) ||
             std::ranges::any_of(replacements_, [&](const replacement& r) {
               return given == r.flag && std::ranges::find(r.dropped, name) != r.dropped.end();
             });
    });
  }
  // Whether the default of a flag is replaced by another flag that was given.
  bool replaced(const flag& f) const {
    return f.kind != flag::on_off && std::ranges::any_of(alternatives_, [&](const alternative& a) {
             return a.reason != nullptr && ((f.name == a.one && given(a.other)) || (f.name == a.other && given(a.one)));
           });
  }
  const flag* find(std::string_view name) const {
    const auto at = std::ranges::find(flags_, name, &flag::name);
    return at == flags_.end() ? nullptr : &*at;
  }
  flag* find(std::string_view name) { return const_cast<flag*>(std::as_const(*this).find(name)); }

  std::string what_;
  std::vector<flag> flags_;
  std::vector<alternative> alternatives_;
  std::vector<replacement> replacements_;
};

}  // namespace gpt
