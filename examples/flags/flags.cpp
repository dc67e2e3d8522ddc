// What reads command lines: CLI11, which takes seconds to compile.

#include "flags.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include <gradus/report/progress.hpp>

namespace gpt {
namespace {

// Ends a word that CLI11 would take apart as a list: [a,b] or {}.
constexpr char literal = '\x1f';

void add(CLI::App& app, flag& f) {
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

}  // namespace

bool flag_table::parse(const std::string& program) {
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

}  // namespace gpt
