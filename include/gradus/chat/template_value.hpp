#pragma once
// The values of a chat template's language, with what Python makes of them: printing, comparing, texts as characters.
// Not part of gradus.hpp: parse_template_value() needs nlohmann/json.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// A chat template that cannot be parsed, that raises, or that is not ours to run.
class chat_template_error : public error {
 public:
  enum class kind {
    parse,    ///< the text is no template
    raised,   ///< the template raises, or does what its language has as an error
    refused,  ///< an operation that gradus does not have
    limit,    ///< more work, memory or depth than a template may take
  };
  chat_template_error(kind what, const std::string& message) : error(message), what_(what) {}
  kind reason() const { return what_; }

 private:
  kind what_;
};

class template_value;

namespace detail {

struct template_sequence;
struct template_dictionary;
/// What only a template makes: namespaces, macros, functions, loops.
struct template_object {
  virtual ~template_object() = default;
};
/// A text; marked by `safe`, it would escape what is added to it.
struct template_text {
  std::string bytes;
  bool marked = false;
};
struct template_undefined {
  std::string why;  ///< what an error says
};

[[noreturn]] void template_fails(chat_template_error::kind kind, const std::string& message);
[[noreturn]] inline void template_raises(const std::string& message) {
  template_fails(chat_template_error::kind::raised, message);
}
[[noreturn]] inline void template_refuses(const std::string& message) {
  template_fails(chat_template_error::kind::refused, message);
}

}  // namespace detail

/// A value that a chat template reads or makes. Values do not change, so copies are cheap.
class template_value {
 public:
  template <class T>
  using shared = std::shared_ptr<const T>;
  using list = std::vector<template_value>;
  using pairs = std::vector<std::pair<template_value, template_value>>;

  /// What containers may nest.
  static constexpr int deepest = 64;

  template_value() = default;                                                   ///< None
  template_value(bool b) : data_(b) {}                                          // NOLINT(google-explicit-constructor)
  template_value(std::int64_t i) : data_(i) {}                                  // NOLINT(google-explicit-constructor)
  template_value(int i) : data_(std::int64_t{i}) {}                             // NOLINT(google-explicit-constructor)
  template_value(std::size_t i) : data_(std::int64_t(i)) {}                     // NOLINT(google-explicit-constructor)
  template_value(double d) : data_(d) {}                                        // NOLINT(google-explicit-constructor)
  template_value(std::string text, bool marked = false);                        // NOLINT(google-explicit-constructor)
  template_value(std::string_view text) : template_value(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  template_value(const char* text) : template_value(std::string(text)) {}       // NOLINT(google-explicit-constructor)
  template_value(list items);                                                   // NOLINT(google-explicit-constructor)
  /// A dictionary; of a key that occurs twice, the last value counts.
  static template_value dictionary(pairs items);
  static template_value undefined(std::string why);
  static template_value sequence(detail::template_sequence items);
  static template_value object(detail::template_object* o);  ///< lives as long as the rendering

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  bool is_none() const { return is<std::monostate>(); }
  bool is_undefined() const { return is<shared<detail::template_undefined>>(); }
  bool is_bool() const { return is<bool>(); }
  bool is_integer() const { return is<std::int64_t>() || is_bool(); }
  bool is_float() const { return is<double>(); }
  bool is_number() const { return is_integer() || is_float(); }
  bool is_text() const { return is<shared<detail::template_text>>(); }

  std::int64_t integer() const { return is_bool() ? std::get<bool>(data_) : std::get<std::int64_t>(data_); }
  double number() const { return is_float() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const std::string& text() const { return std::get<shared<detail::template_text>>(data_)->bytes; }
  bool marked() const { return is_text() && std::get<shared<detail::template_text>>(data_)->marked; }
  const std::string& why() const { return std::get<shared<detail::template_undefined>>(data_)->why; }
  /// Null for another kind of value.
  const detail::template_sequence* sequence() const;
  const detail::template_dictionary* dictionary() const;
  template <class T>
  T* object() const {
    const auto* o = std::get_if<detail::template_object*>(&data_);
    return o == nullptr ? nullptr : dynamic_cast<T*>(*o);
  }

  /// Python's name of its type.
  std::string type() const;
  bool truth() const;
  int depth() const;
  /// How many values it holds, and how much text: what printing or comparing it takes.
  std::size_t weight() const;

 private:
  template <class T>
  explicit template_value(shared<T> data) : data_(std::move(data)) {}

  std::variant<std::monostate, bool, std::int64_t, double, shared<detail::template_undefined>,
               shared<detail::template_text>, shared<detail::template_sequence>, shared<detail::template_dictionary>,
               detail::template_object*>
      data_;
};

/// A JSON text as a value; the keys of its objects keep their order. Throws gradus::error, prefixed by `name`.
template_value parse_template_value(std::string_view json, const std::string& name);

namespace detail {

struct template_sequence {
  enum class kind { list, tuple, range, view, generator };
  kind what = kind::list;
  std::vector<template_value> items;
  std::string printed = {};  ///< of a range or a view: what stands around its items
  int depth = 1;
  std::size_t weight = 1;
  mutable std::size_t at = 0;  ///< of a generator, whose items are there once: the next one
};

struct template_dictionary {
  template_value::pairs items;
  int depth = 1;
  std::size_t weight = 1;
  const template_value* find(const template_value& key) const;
};

/// Whether a number is itself as a double.
bool is_exact(const template_value& v);
bool equal(const template_value& a, const template_value& b);
/// Whether a < b in Python; raises for values without an order.
bool less(const template_value& a, const template_value& b);
/// As str() of Python prints a value, and as repr() does.
std::string str(const template_value& value);
std::string repr(const template_value& value);

/// How json.dumps() of Python writes a value.
struct json_style {
  bool ascii = false, sorted = false, indented = false;
  std::string indent = {}, between = ", ", after_key = ": ";
};
std::string to_json(const template_value& value, const json_style& style, int level = 0);

/// A text's characters, and characters as a text.
std::u32string characters(std::string_view text);
std::string from_characters(std::u32string_view text);
bool is_python_space(char32_t c);
std::string in_upper_case(std::string_view text);
std::string in_lower_case(std::string_view text);

}  // namespace detail
}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "template_value.ipp"
#endif
