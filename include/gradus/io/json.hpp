#pragma once
// The only header that includes nlohmann/json: strict parsing. Not part of gradus.hpp.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/error.hpp"

namespace gradus {

namespace detail {

/// What becomes of a key that an object has twice.
enum class repeated_keys { refused, last_counts };

/// Builds a JSON value from the parser's events.
class strict_json_builder {
 public:
  using json = nlohmann::json;
  static constexpr std::size_t deepest = 64;

  explicit strict_json_builder(repeated_keys repeated = repeated_keys::refused) : repeated_(repeated) {}

  json result;
  std::string problem;
  std::string twice;  ///< a key that occurs twice in an object

  /// Builds the value of a text; false if that stopped. By the parser itself: json::sax_parse() would add readers of
  /// four binary formats to every program.
  bool parse(std::string_view text) {
    auto input = nlohmann::detail::input_adapter(text);
    return nlohmann::detail::parser<json, decltype(input)>(std::move(input)).sax_parse(this);
  }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return add(value); }
  bool number_float(json::number_float_t value, const json::string_t&) { return add(value); }
  bool string(json::string_t& value) { return add(std::move(value)); }
  bool binary(json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(json::object()); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(json::string_t& name) {
    const auto [place, added] = open_.back()->get_ref<json::object_t&>().emplace(std::move(name), nullptr);
    if (!added && repeated_ == repeated_keys::refused) {
      twice = place->first;
      problem = "the key " + json(place->first).dump(-1, ' ', true) + " occurs twice in one object";
      return false;
    }
    value_ = &place->second;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) {
    problem = "is not JSON: it ends or has an error at byte " + std::to_string(position);
    return false;
  }

 private:
  json* put(json value) {
    if (open_.empty()) return &(result = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    return &(*value_ = std::move(value));
  }
  bool add(json value) {
    put(std::move(value));
    return true;
  }
  bool open(json value) {
    if (open_.size() == deepest) {
      problem = "nests deeper than " + std::to_string(deepest) + " levels";
      return false;
    }
    open_.push_back(put(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  repeated_keys repeated_;
  std::vector<json*> open_;  // an open value is the last element of its array, so no pointer moves
  json* value_ = nullptr;
};

}  // namespace detail

/// Parses a JSON text. Of a key that an object has twice the last one counts, as in Python's json and tokenizers, the
/// readers of Hugging Face's files. Throws gradus::error, prefixed by `name`, for other text, or over 64 levels.
inline nlohmann::json parse_json(std::string_view text, const std::string& name) {
  detail::strict_json_builder builder(detail::repeated_keys::last_counts);
  if (!builder.parse(text)) throw error(name + ": " + builder.problem);
  return std::move(builder.result);
}

}  // namespace gradus
