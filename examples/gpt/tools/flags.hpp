#pragma once
// A program's flags as one table, which drives the command line, --config, the config of a run and --help. Only sources
// that read flags include this: CLI11 takes seconds to compile.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/core/parse_number.hpp>
#include <gradus/io/config_file.hpp>
#include <gradus/report/progress.hpp>
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
  enum { repeated, file, once } in_config = repeated;  ///< as given, as an absolute path, or not at all
  std::vector<std::string> given = {};

  flag without_default() && { return show_default = false, std::move(*this); }  ///< 0 means that it is not given
  flag required() && { return is_required = true, std::move(*this); }
  flag path() && { return in_config = file, std::move(*this); }
  flag only_once() && { return in_config = once, std::move(*this); }  ///< never part of a run's config
};

inline std::string quoted_if_empty(const std::string& text) { return text.empty() ? "''" : text; }

/// A whole number in decimal digits. (CLI11 by itself reads 010 as 8, and clamps numbers that are too large.)
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
/// A text without a name, which must be given.
inline flag positional(const std::string& name, std::string& member, std::string about) {
  flag f = text(name, member, std::move(about));
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
/// The device must be the one that the program was compiled for; a GPU's number may follow: cuda:1.
inline flag device_flag(const std::string& compiled_for, int& gpu) {
  const bool cuda = compiled_for == "cuda";
  const std::string must =
      cuda ? "cuda, or a GPU by number, such as cuda:1" : compiled_for + ", which this program was compiled for";
  return {"device",
          [=, &gpu](std::string& word) {
            int n = word == compiled_for ? 0 : -1;
            if (cuda && word.starts_with("cuda:"))
              n = gr::parse_number<int>(std::string_view(word).substr(5)).value_or(-1);
            gr::check_flag(n >= 0, "--device", must, quoted_if_empty(word));
            gpu = n;
          },
          [] { return std::string(); },
          must,
          flag::value,
          false,
          false,
          flag::once};
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

class flag_table {
 public:
  flag_table(std::string what, std::vector<flag> flags, std::vector<alternative> alternatives = {})
      : what_(std::move(what)), flags_(std::move(flags)), alternatives_(std::move(alternatives)) {}

  /// Reads a command line, after the files that its --config names; what the command line says takes precedence.
  /// Entries of those files that are `compiled_in` must have the same value. Throws gr::bad_flag; returns false if
  /// --help was asked for and printed.
  bool read(int argc, char** argv, const gr::config_entries& compiled_in = {}) {
    words_.clear();
    files_.clear();
    const std::vector<std::string> own = split_configs(argc, argv, compiled_in);
    words_.insert(words_.end(), own.begin(), own.end());
    try {
      if (!parse(argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "")) return false;
      check_alternatives();
      return true;
    } catch (const gr::bad_flag& e) { throw gr::bad_flag(origin_of(e.what()) + e.what()); }
  }
  bool given(std::string_view name) const {
    const flag* f = find(name);
    return f != nullptr && !f->given.empty();
  }
  /// The entries that repeat this run: every flag, given or not, with files by absolute names.
  gr::config_entries config() const {
    gr::config_entries all;
    for (const flag& f : flags_) {
      if (f.in_config == flag::once) continue;
      if (f.given.empty()) {
        if (const std::string v = f.now(); !v.empty() && (f.show_default || v != "0") && !replaced(f))
          all.emplace_back(f.name, v);
      } else {
        for (const std::string& v : f.given)
          all.emplace_back(f.name, f.in_config == flag::file ? std::filesystem::absolute(v).string() : v);
      }
    }
    gr::config_text(all);  // throws if a file's name cannot be part of a config
    return all;
  }

 private:
  // The words of the command line without --config FILE; those of the files go to words_.
  std::vector<std::string> split_configs(int argc, char** argv, const gr::config_entries& compiled_in) {
    std::vector<std::string> own, files, names;
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (word == "--config" && find("config") != nullptr) {
        if (i + 1 == argc) throw gr::bad_flag("--config needs the name of a file");
        files.emplace_back(argv[++i]);
      } else if (word.starts_with("--config=") && find("config") != nullptr) {
        files.emplace_back(word.substr(9));
      } else {
        own.emplace_back(word);
        if (!word.starts_with("--")) continue;
        const std::string_view name = word.substr(2, word.find('=') - 2);
        names.emplace_back(name.starts_with("no-") ? name.substr(3) : name);
      }
    }
    for (const std::string& file : files)
      for (const auto& [name, value] : read_config(file))
        if (!is_compiled_in(compiled_in, file, name, value) && !replaced_by(name, names)) add_words(file, name, value);
    return own;
  }
  static gr::config_entries read_config(const std::string& file) {
    try {
      return gr::read_config(file);
    } catch (const gr::error& e) { throw gr::bad_flag(std::string("--config: ") + e.what()); }
  }
  static bool is_compiled_in(const gr::config_entries& compiled_in, const std::string& file, const std::string& name,
                             const std::string& value) {
    const auto at = std::ranges::find(compiled_in, name, [](const auto& entry) { return entry.first; });
    if (at == compiled_in.end()) return false;
    if (at->second == value) return true;
    throw gr::bad_flag("--config: " + file + ": its " + name + " is " + value + ", and this program was compiled for " +
                       at->second + "; scripts/train.sh --config compiles one for it");
  }
  void add_words(const std::string& file, const std::string& name, const std::string& value) {
    const flag* f = find(name);
    if (f == nullptr || f->kind != flag::on_off) {
      words_.push_back("--" + name);
      words_.push_back(value);
      files_.emplace(name, file);
      return;
    }
    gr::check_flag(value == "true" || value == "false", "--config: " + file + ": " + name, "true or false", value);
    if (value != f->now()) words_.push_back((value == "true" ? "--" : "--no-") + name);
  }
  bool replaced_by(std::string_view name, const std::vector<std::string>& names) const {
    return std::ranges::any_of(names, [&](const std::string& given) {
      return given == name || std::ranges::any_of(alternatives_, [&](const alternative& a) {
               return (given == a.one && name == a.other) || (given == a.other && name == a.one);
             });
    });
  }
  // Whether the default of a flag is replaced by another flag that was given.
  bool replaced(const flag& f) const {
    return f.kind != flag::on_off && std::ranges::any_of(alternatives_, [&](const alternative& a) {
             return a.reason != nullptr && ((f.name == a.one && given(a.other)) || (f.name == a.other && given(a.one)));
           });
  }
  void check_alternatives() const {
    for (const alternative& a : alternatives_)
      if (a.reason != nullptr && given(a.one) && given(a.other))
        throw gr::bad_flag(std::string("--") + a.one + " and --" + a.other + ": give one of them" + a.reason);
  }
  // "--config: FILE: " if the message is about a flag that came from a file.
  std::string origin_of(std::string_view message) const {
    for (const auto& [name, file] : files_)
      if (const std::size_t at = message.find("--" + name); at != message.npos) {
        const std::string_view rest = message.substr(at + 2 + name.size());
        if (rest.empty() || rest.front() == ' ' || rest.front() == ':') return "--config: " + file + ": ";
      }
    return "";
  }

  bool parse(const std::string& program) {
    CLI::App app{what_};
    if (!program.empty()) app.name(program);
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    for (flag& f : flags_) add(app, f);
    for (std::string& word : words_)
      if (word.ends_with(']') || word.ends_with('}')) word += literal;
    try {
      std::ranges::reverse(words_);  // as CLI11 takes them
      app.parse(std::move(words_));
      return true;
    } catch (const CLI::CallForHelp&) {
      const std::size_t columns = gr::output_columns(), indent = columns < 80 ? 4 : 30;
      app.get_formatter()->column_width(indent);
      std::fputs(gr::wrap_text(app.help(), columns, indent).c_str(), stdout);
      return false;
    } catch (const CLI::ParseError& e) {
      std::string message = e.what();
      std::erase(message, literal);
      throw gr::bad_flag(message);
    }
  }
  // Ends a word that CLI11 would take apart as a list: [a,b] or {}.
  static constexpr char literal = '\x1f';
  static void add(CLI::App& app, flag& f) {
    const auto take = [&f](std::string word) {
      if (word.ends_with(literal)) word.pop_back();
      f.read(word);
      f.given.push_back(word);
    };
    if (f.kind == flag::on_off) {
      const bool on = f.now() == "true";
      app.add_flag_function(
          on ? "--" + f.name + ",!--no-" + f.name : "--" + f.name,
          [take](std::int64_t n) { take(n > 0 ? "true" : "false"); }, f.text);
      return;
    }
    const auto each = [take](const std::vector<std::string>& words) { std::ranges::for_each(words, take); };
    auto* option = app.add_option_function<std::vector<std::string>>((f.kind == flag::positional ? "" : "--") + f.name,
                                                                     each, f.text);
    if (f.kind == flag::list) option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(1, -1);
    else option->expected(1);
    option->required(f.is_required)->type_name("");
    if (f.show_default) option->default_str(f.now());
  }
  const flag* find(std::string_view name) const {
    const auto at = std::ranges::find(flags_, name, &flag::name);
    return at == flags_.end() ? nullptr : &*at;
  }

  std::string what_;
  std::vector<flag> flags_;
  std::vector<alternative> alternatives_;
  std::vector<std::string> words_;
  std::map<std::string, std::string> files_;  // flags that a file gives, with the file's name
};

}  // namespace gpt
