#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "../core/parse_number.hpp"
#include "../core/printable.hpp"
#include "../tokenizer/unicode.hpp"
#include "csv.hpp"
#include "labelled_texts.hpp"

namespace gradus {

namespace detail {

/// The labels of a file as they are written, and their lines.
struct written_labels {
  struct label {
    std::string text;
    index_t line;
  };
  std::vector<label> all;

  static std::string shown(const label& l) {
    return "line " + std::to_string(l.line) + ": the label '" + printable(std::string_view(l.text).substr(0, 40)) + "'";
  }
  static bool is_number(const label& l) {
    const auto number = parse_number<std::int32_t>(l.text);
    return number && *number >= 0 && *number < 65536 && l.text == std::to_string(*number);
  }
  /// The name of each label: "0", "1", … up to the largest if all are numbers, or else all that occur, sorted.
  std::vector<std::string> names(const csv_reader& file) const {
    std::vector<std::string> names;
    const auto other = std::ranges::find_if_not(all, is_number);
    if (other == all.end()) {
      std::int32_t last = 0;
      for (const label& l : all) last = std::max(last, *parse_number<std::int32_t>(l.text));
      for (std::int32_t i = 0; i <= last; ++i) names.push_back(std::to_string(i));
      return names;
    }
    if (other == all.begin() && all.size() > 1 && std::all_of(other + 1, all.end(), is_number))
      file.fail(shown(*other) + " is not a number, as all others are; if the first line names the columns, set " +
                ".header = true");
    for (const label& l : all) names.push_back(l.text);
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }
};

}  // namespace detail

GRADUS_IMPL labelled_texts read_labelled_texts(const std::filesystem::path& path,
                                               const labelled_text_options& options) {
  detail::csv_reader file(path, {.delimiter = options.delimiter, .header = options.header});
  labelled_texts read;
  detail::written_labels written;
  std::vector<std::string_view> fields;
  const auto field = [&](index_t column) {
    if (column >= fields.size())
      file.fail("line " + std::to_string(file.line()) + " has " + std::to_string(fields.size()) +
                " columns; columns count from 0, and there is no column " + std::to_string(column));
    const std::string text(fields[column]);
    if (unicode::replace_broken(text) != text)
      file.fail("line " + std::to_string(file.line()) + ", column " + std::to_string(column + 1) + ": is not UTF-8");
    return text;
  };
  while (file.next_row(fields)) {
    read.texts.push_back(field(options.text));
    if (options.second_text) read.second_texts.push_back(field(*options.second_text));
    written.all.push_back({field(options.label), file.line()});
    if (written.all.back().text.empty()) file.fail("line " + std::to_string(file.line()) + ": has no label");
  }
  read.columns = file.extents()[1];
  read.label_names = options.label_names.empty() ? written.names(file) : options.label_names;
  std::unordered_map<std::string, std::int32_t> numbers;
  for (const std::string& name : read.label_names) numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
  for (const auto& label : written.all) {
    const auto found = numbers.find(label.text);
    if (found == numbers.end()) {
      std::string names;
      for (const std::string& name : read.label_names) names += (names.empty() ? "" : ", ") + name;
      file.fail(written.shown(label) + " is none of: " + printable(names.substr(0, 100)));
    }
    if (options.classes != 0 && found->second >= options.classes)
      file.fail(written.shown(label) + " is class " + std::to_string(found->second) + "; the classes are 0 to " +
                std::to_string(options.classes - 1));
    read.labels.push_back(found->second);
  }
  return read;
}

}  // namespace gradus
