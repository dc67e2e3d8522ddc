#pragma once
// Flags read by CLI11, with the errors that program.hpp ends in. For sources that read flags alone: CLI11 takes seconds
// to compile.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <gradus/core/parse_number.hpp>
#include <gradus/train/progress.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "program.hpp"

namespace gpt {

namespace gr = gradus;

/// Adds the option `name` for a whole number from `least` to `most` in decimal digits; anything else throws bad_flag.
/// CLI11 by itself would read 010 as 8, and make a number that is too large the largest there is.
template <class Int>
CLI::Option* add_whole_number(CLI::App& app, const std::string& name, Int& value, std::type_identity_t<Int> least,
                              std::type_identity_t<Int> most, const std::string& description) {
  const auto decimal = [=](const std::string& text) {
    const std::optional<Int> n = gr::parse_number<Int>(text);
    check_flag(n && *n >= least && *n <= most, name,
               "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
               text.empty() ? "''" : text);
    return std::to_string(*n);
  };
  return app.add_option(name, value, description)->transform(decimal);
}

/// Adds the option `name` for a number in decimal digits, such as 0.1 or 3e-4, which has to be `what`; anything but a
/// finite number for which `fine` holds throws bad_flag.
inline CLI::Option* add_number(CLI::App& app, const std::string& name, double& value, const std::string& what,
                               bool (*fine)(double), const std::string& description) {
  const auto decimal = [=](const std::string& text) {
    const std::optional<double> x = gr::parse_number<double>(text);
    check_flag(x && std::isfinite(*x) && fine(*x), name, what, text.empty() ? "''" : text);
    return text;
  };
  return app.add_option(name, value, description)->transform(decimal);
}
inline bool is_positive(double x) { return x > 0; }
inline bool is_not_negative(double x) { return x >= 0; }
inline bool is_below_1(double x) { return x >= 0 && x < 1; }

/// Reads the words of a command line. Throws bad_flag; returns false where --help was asked for and printed.
inline bool read_flags(CLI::App& app, std::vector<std::string> words) {
  try {
    std::ranges::reverse(words);  // as CLI11 takes them
    app.parse(std::move(words));
    return true;
  } catch (const CLI::CallForHelp&) {
    const std::size_t columns = gr::output_columns();
    const std::size_t indent = columns < 80 ? 4 : 30;
    app.get_formatter()->column_width(indent);
    std::fputs(gr::wrap_text(app.help(), columns, indent).c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& e) { throw bad_flag(e.what()); }
}
inline bool read_flags(CLI::App& app, int argc, char** argv) {
  if (argc > 0) app.name(std::filesystem::path(argv[0]).filename().string());
  return read_flags(app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

}  // namespace gpt
