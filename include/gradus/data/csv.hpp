#pragma once
// Tables of numbers in text files: CSV.

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "../core/parse_number.hpp"
#include "host_array.hpp"

namespace gradus {

/// What to read of a CSV file.
struct csv_options {
  char delimiter = ',';      ///< between fields
  bool header = false;       ///< the first line names the columns, and is skipped
  index_t first_column = 0;  ///< the first column to read, counted from 0
  index_t columns = 0;       ///< how many columns to read; 0: all from the first. Others may hold text
};

namespace detail {

/// The chosen fields of a CSV file, in order.
class csv_reader {
 public:
  csv_reader(const std::filesystem::path& path, const csv_options& options);
  csv_reader(const csv_reader&) = delete;
  csv_reader& operator=(const csv_reader&) = delete;

  /// Sets `field` to the next one, without spaces around it; returns false after the last row. Throws gradus::error for
  /// a row with another number of fields than the first.
  bool next(std::string_view& field);
  /// Sets `fields` to the chosen ones of the next row; returns false after the last row. Throws as next() does.
  bool next_row(std::vector<std::string_view>& fields);
  /// The line of the last field, counted from 1.
  index_t line() const { return line_; }
  /// Throws gradus::error for the last field of next(), with its line and column.
  [[noreturn]] void refuse(std::string_view field, std::string_view dtype) const;
  /// Rows and columns read.
  std::vector<index_t> extents() const { return {rows_, last_column() - options_.first_column}; }
  /// Throws gradus::error that begins with the file's name.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string_view take_line();
  std::string_view take_field();
  index_t last_column() const { return options_.columns == 0 ? columns_ : options_.first_column + options_.columns; }

  csv_options options_;
  std::filesystem::path path_;
  std::string whole_;
  std::string_view text_;                // after the current row
  std::optional<std::string_view> row_;  // after the current field
  index_t line_ = 0, column_ = 0;        // of the current field, counted from 1
  index_t rows_ = 0, columns_ = 0;       // complete rows, fields of the first one
};

/// A field as T: integers exactly, floating-point numbers by way of double. Nullopt if T cannot represent it.
template <class T>
std::optional<T> number_of_field(std::string_view field) {
  if constexpr (is_floating<T>) {
    const auto number = parse_number<double>(field);
    if (!number) return std::nullopt;
    const T rounded = convert_element<T>(*number);
    if (std::isinf(static_cast<double>(rounded)) && !std::isinf(*number)) return std::nullopt;
    return rounded;
  } else {
    return parse_number<T>(field);
  }
}

}  // namespace detail

/// Reads the numbers of a CSV file: an array of rows × columns. A number is written as `-12`, `0.5`, `3e-4`, `nan` or
/// `inf`, without quotes; spaces around it and a byte order mark are ignored.
///
/// Throws gradus::error with line and column, counted from 1, of the first field that is no number of type T; with the
/// line of a row that has more or fewer fields than the first; and if there are no rows, or not the columns to read.
template <class T>
host_array<T> read_csv(const std::filesystem::path& path, const csv_options& options = {}) {
  static_assert(is_element<T> && !std::is_same_v<T, bool>,
                "read_csv<T>: T must be one of f64 f32 bf16 f16 i64 i32 u16 u8");
  detail::csv_reader fields(path, options);
  std::vector<T> values;
  for (std::string_view field; fields.next(field);) {
    const std::optional<T> number = detail::number_of_field<T>(field);
    if (!number) fields.refuse(field, dtype_name<T>());
    values.push_back(*number);
  }
  return {fields.extents(), std::move(values)};
}

/// Reads the numbers of a CSV file into a tensor on ctx's device. Throws gradus::error as read_csv(path), and unless
/// Shape is the number of rows and of columns.
template <class T, class Shape, class D>
tensor<T, Shape, D> read_csv(context<D>& ctx, const std::filesystem::path& path, const csv_options& options = {},
                             category what = category::activation) {
  return detail::tensor_from_array<Shape>(ctx, path.string(), read_csv<T>(path, options), what);
}

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "csv.ipp"
#endif
