// What reads command lines. CLI11, which takes seconds to compile, lays out --help.

#include "flags.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include <gradus/report/progress.hpp>

namespace gpt {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// NAME of --NAME or --NAME=VALUE.
std::string_view name_in(std::string_view word) { return word.substr(2, word.find('=') - 2); }

// Letters to change, add or leave out to make one text the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t k = 0; k <= b.size(); ++k) row[k] = k;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t k = 0; k < b.size(); ++k) {
      const std::size_t changed = diagonal + (a[i] == b[k] ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({changed, row[k] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// Whether one of the parts of a name, "size" of "batch-size", is this word.
bool has_part(std::string_view name, std::string_view word) {
  const std::string all = "-" + std::string(name) + "-";
  return all.find("-" + std::string(word) + "-") != all.npos;
}

// The flag of a table that somebody may have meant by `name`; empty if none is like it.
std::string closest(std::string name, const std::vector<flag>& flags) {
  std::ranges::replace(name, '_', '-');
  std::string best;
  std::size_t least = name.size() < 4 ? 2 : 3;
  for (const flag& f : flags)
    if (const std::size_t d = distance(name, f.name); f.kind != flag::positional && d < least)
      least = d, best = "--" + f.name;
  for (const flag& f : flags)
    if (best.empty() && f.kind != flag::positional && has_part(name, f.name)) best = "--" + f.name;
  return best;
}

[[noreturn]] void refuse_flag(const std::string& word, const std::vector<flag>& flags) {
  const std::string name(word.starts_with("--") ? name_in(word) : word.substr(1));
  for (const flag& f : flags)
    if (f.kind == flag::on_off && name == "no-" + f.name)
      throw gr::bad_flag(word + ": --" + f.name + " is off unless it is given; leave it out");
  const std::string meant = closest(name, flags);
  throw gr::bad_flag("there is no flag " + word.substr(0, word.find('=')) +
                     (meant.empty() ? "; --help lists those there are" : "; is " + meant + " meant?"));
}

// `last` is the flag before the word, which has its values; null: there is none.
[[noreturn]] void refuse_word(const std::string& word, const flag* last) {
  const std::string what = "'" + word + "' is not expected";
  if (last == nullptr) throw gr::bad_flag(what + "; flags begin with --");
  if (last->kind == flag::on_off) throw gr::bad_flag(what + ": --" + last->name + " takes no value");
  if (last->kind == flag::list)
    throw gr::bad_flag(what + ": --" + last->name + "=VALUE is one value; several are --" + last->name + " A B");
  throw gr::bad_flag(what + ": --" + last->name + " takes one value; quote one that has blanks");
}

}  // namespace

bool is_flag_word(std::string_view word) {
  if (word == "-h" || word == "--") return true;
  if (word.size() < 3 || !word.starts_with("--") || !is_letter(word[2])) return false;
  return std::ranges::all_of(name_in(word),
                             [](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_'; });
}

std::string value_after(int argc, char** argv, int& i) {
  const std::string flag = argv[i];
  if (i + 1 >= argc) throw gr::bad_flag(flag + " needs a value: " + flag + " VALUE");
  const std::string word = argv[++i];
  if (is_flag_word(word))
    throw gr::bad_flag(flag + " needs a value before " + word + "; if that is the value, write " + flag + "=" + word);
  return word;
}

std::optional<std::string> find_value(int argc, char** argv, std::string_view flag) {
  std::optional<std::string> value;
  for (int i = 1; i < argc && argv[i] != std::string_view("--"); ++i) {
    const std::string_view word = argv[i];
    if (word == flag) value = value_after(argc, argv, i);
    else if (word.starts_with(flag) && word.substr(flag.size()).starts_with('=')) value = word.substr(flag.size() + 1);
  }
  return value;
}

bool asks_for_help(int argc, char** argv) {
  for (int i = 1; i < argc && argv[i] != std::string_view("--"); ++i)
    if (argv[i] == std::string_view("--help") || argv[i] == std::string_view("-h")) return true;
  return false;
}

std::vector<flag_table::assignment> flag_table::assignments_of(int argc, char** argv) {
  std::vector<assignment> all;
  auto place = flags_.begin();  // of the next word without a flag
  flag* last = nullptr;
  bool flags_end = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!flags_end && word == "--") {
      flags_end = true;
      continue;
    }
    if (flags_end || !(word.starts_with("--") || (word.size() > 1 && word[0] == '-' && is_letter(word[1])))) {
      place = std::ranges::find(place, flags_.end(), flag::positional, &flag::kind);
      if (place == flags_.end()) refuse_word(word, flags_end ? nullptr : last);
      all.push_back({&*place++, word, ""});
      continue;
    }
    const std::string_view name = word.starts_with("--") ? name_in(word) : "";
    const bool has_value = word.find('=') != word.npos;
    const std::string value = has_value ? word.substr(word.find('=') + 1) : "";
    flag* f = find(name);
    if (name.starts_with("no-"))
      if (flag* on = find(name.substr(3)); on != nullptr && on->kind == flag::on_off && on->now() == "true") {
        if (has_value) throw gr::bad_flag("--" + std::string(name) + " takes no value, and has '" + value + "'");
        all.push_back({last = on, "false", ""});
        continue;
      }
    if (f == nullptr || f->kind == flag::positional) refuse_flag(word, flags_);
    last = f;
    if (f->kind == flag::on_off) {
      if (has_value)
        gr::check_flag(value == "true" || value == "false", word.substr(0, word.find('=')), "true or false",
                       quoted_if_empty(value));
      all.push_back({f, has_value ? value : "true", ""});
      continue;
    }
    all.push_back({f, has_value ? value : value_after(argc, argv, i), ""});
    while (f->kind == flag::list && !has_value && i + 1 < argc && !is_flag_word(argv[i + 1]))
      all.push_back({f, argv[++i], ""});
  }
  return all;
}

std::vector<flag_table::assignment> flag_table::assignments_in(const std::string& from, const std::string& file,
                                                               const std::vector<std::string>& names) {
  gr::config_entries entries;
  try {
    entries = gr::read_config(file);
  } catch (const gr::error& e) { throw gr::bad_flag(from + e.what()); }
  std::vector<assignment> all;
  const std::string origin = from + file + ": ";
  for (const auto& [name, value] : entries) {
    flag* f = find(name);
    if (f == nullptr) throw gr::bad_flag(origin + "there is no flag '" + name + "'");
    if (f->in_config == flag::once) throw gr::bad_flag(origin + name + " is for the command line");
    if (f->in_config == flag::skipped || replaced_by(name, names)) continue;
    if (f->kind == flag::on_off) {
      gr::check_flag(value == "true" || value == "false", origin + f->name, "true or false", quoted_if_empty(value));
      if (value == f->now()) continue;
    }
    all.push_back({f, value, origin});
  }
  return all;
}

bool flag_table::read(int argc, char** argv, const std::string& run_config) {
  if (asks_for_help(argc, argv)) {
    print_help(std::filesystem::path(argv[0]).filename().string());
    return false;
  }
  const std::vector<assignment> own = assignments_of(argc, argv);
  std::vector<std::string> names;
  for (const assignment& a : own) names.insert(names.end(), {a.to->name, a.to->name + "=" + a.value});
  std::vector<assignment> all;
  const auto add_file = [&](const std::string& from, const std::string& file) {
    for (assignment& a : assignments_in(from, file, names)) all.push_back(std::move(a));
  };
  for (const assignment& a : own)
    if (a.to->name == "config") {
      gr::check_flag(!a.value.empty(), "--config", "the name of a file", "''");
      add_file("--config: ", a.value);
    }
  if (!run_config.empty()) add_file("", run_config);
  all.insert(all.end(), own.begin(), own.end());
  for (assignment& a : all) {
    try {
      a.to->read(a.value);
    } catch (const gr::bad_flag& e) { throw gr::bad_flag(a.origin + e.what()); }
    a.to->given.push_back(a.value);
  }
  for (const flag& f : flags_)
    if (f.is_required && f.given.empty())
      throw gr::bad_flag((f.kind == flag::positional ? "" : "--") + f.name + " is required");
  for (const alternative& a : alternatives_)
    if (a.reason != nullptr && given(a.one) && given(a.other)) {
      const auto from_file = std::ranges::find_if(all, [&](const assignment& s) {
        return (s.to->name == a.one || s.to->name == a.other) && !s.origin.empty();
      });
      throw gr::bad_flag((from_file == all.end() ? "" : from_file->origin) + "--" + a.one + " and --" + a.other +
                         ": give one of them" + a.reason);
    }
  return true;
}

void flag_table::print_help(const std::string& program) {
  CLI::App app{what_};
  app.name(program);
  for (const flag& f : flags_) {
    const std::string name = (f.kind == flag::positional ? "" : "--") + f.name;
    if (f.kind == flag::on_off) {
      app.add_flag(f.now() == "true" ? name + ",!--no-" + f.name : name, f.text);
      continue;
    }
    auto* option = app.add_option(name, f.text);
    if (f.kind == flag::list) option->expected(1, -1);
    option->required(f.is_required)->type_name("");
    if (f.show_default) option->default_str(f.now());
  }
  const std::size_t columns = gr::output_columns(), indent = columns < 80 ? 4 : 30;
  app.get_formatter()->column_width(indent);
  std::fputs(gr::wrap_text(app.help(), columns, indent).c_str(), stdout);
}

}  // namespace gpt
