#pragma once
#include <algorithm>
#include <string>

#include "../core/printable.hpp"
#include "../io/text_file.hpp"
#include "csv.hpp"

namespace gradus::detail {

GRADUS_IMPL csv_reader::csv_reader(const std::filesystem::path& path, const csv_options& options)
    : options_(options), path_(path), whole_(read_text(path)), text_(whole_) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  text_ = text_.substr(0, text_.find_last_not_of("\r\n") + 1);
  if (options_.header && !text_.empty()) take_line();
  if (text_.empty()) fail("holds no rows");
}

GRADUS_IMPL std::string_view csv_reader::take_line() {
  const std::size_t end = std::min(text_.find('\n'), text_.size());
  std::string_view line = text_.substr(0, end);
  text_.remove_prefix(std::min(end + 1, text_.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  ++line_;
  return line;
}

GRADUS_IMPL std::string_view csv_reader::take_field() {
  if (!row_) {
    row_ = take_line();
    column_ = 0;
  }
  ++column_;
  const std::size_t end = row_->find(options_.delimiter);
  const std::string_view field = row_->substr(0, end);
  if (end != std::string_view::npos) {
    row_->remove_prefix(end + 1);
    return field;
  }
  row_.reset();
  if (rows_++ == 0) columns_ = column_;
  if (column_ != columns_)
    fail("line " + std::to_string(line_) + " has " + std::to_string(column_) + " fields; the first row has " +
         std::to_string(columns_));
  const index_t first = options_.first_column, wanted = std::max<index_t>(options_.columns, 1);
  if (first >= columns_ || wanted > columns_ - first)
    fail("has " + std::to_string(columns_) + " columns; columns count from 0, and there is no column " +
         std::to_string(first >= columns_ ? first : columns_));
  return field;
}

GRADUS_IMPL bool csv_reader::next(std::string_view& field) {
  do {
    if (!row_ && text_.empty()) return false;
    field = take_field();
  } while (column_ <= options_.first_column || (options_.columns != 0 && column_ > last_column()));
  const auto spaces = [](char c) { return c == ' ' || c == '\t'; };
  while (!field.empty() && spaces(field.front())) field.remove_prefix(1);
  while (!field.empty() && spaces(field.back())) field.remove_suffix(1);
  return true;
}

GRADUS_IMPL bool csv_reader::next_row(std::vector<std::string_view>& fields) {
  fields.clear();
  for (std::string_view field; fields.empty() || row_;) {
    if (!next(field)) return false;
    fields.push_back(field);
  }
  return true;
}

GRADUS_IMPL void csv_reader::refuse(std::string_view field, std::string_view dtype) const {
  fail("line " + std::to_string(line_) + ", column " + std::to_string(column_) +
       (field.empty() ? ": is empty; a number is needed"
                      : ": '" + printable(field.substr(0, 40)) + "' is not a number of type " + std::string(dtype)) +
       (line_ == 1 && !field.empty() ? "; if the first line names the columns, set .header = true" : ""));
}

GRADUS_IMPL void csv_reader::fail(const std::string& what) const { throw error(path_.string() + ": " + what); }

}  // namespace gradus::detail
