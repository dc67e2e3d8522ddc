#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "../core/printable.hpp"
#include "../io/json.hpp"
#include "../tokenizer/unicode.hpp"
#include "template_value.hpp"

namespace gradus {

namespace detail {

GRADUS_IMPL void template_fails(chat_template_error::kind kind, const std::string& message) {
  throw chat_template_error(kind, message);
}

inline int checked_depth(int depth) {
  if (depth > template_value::deepest)
    template_fails(chat_template_error::kind::limit,
                   "values nest deeper than " + std::to_string(template_value::deepest) + " levels");
  return depth;
}

/// A list of lists of one list has more values than any machine prints.
inline std::size_t sum_of_weights(std::size_t sum, const template_value& more) {
  return std::min(sum + more.weight(), std::size_t{1} << 40);
}

/// The digits that tell a number from its neighbours, as Python prints them.
inline std::string float_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), d, std::chars_format::scientific).ptr;
  const std::string_view all(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = all.find('e');
  int exponent = 0;
  const char* digits_of = all.data() + e + (all[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits_of, all.data() + all.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string size = std::to_string(std::abs(exponent));
    if (size.size() < 2) size.insert(0, "0");
    return std::string(all.substr(0, e)) + (exponent < 0 ? "e-" : "e+") + size;
  }
  const auto fixed = std::to_chars(buffer.data(), buffer.data() + buffer.size(), d, std::chars_format::fixed).ptr;
  std::string text(buffer.data(), fixed);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

inline void append_hex(std::string& to, std::uint32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) to += "0123456789abcdef"[value >> shift & 15];
}

inline std::string text_repr(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  unicode::for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (c == U'\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == U'\n' || c == U'\r' || c == U'\t') {
      out += c == U'\n' ? "\\n" : c == U'\r' ? "\\r" : "\\t";
    } else if (c < 0x20 || (c >= 0x7F && c < 0xA1) || c == 0xAD) {
      out += "\\x";
      append_hex(out, c, 2);
    } else if (c >= 0x80 && (unicode::is_space(c) || unicode::is(c, unicode::property::control))) {
      out += c < 0x10000 ? "\\u" : "\\U";
      append_hex(out, c, c < 0x10000 ? 4 : 8);
    } else {
      out += bytes;
    }
  });
  return out + quote;
}

GRADUS_IMPL std::string repr(const template_value& v) {
  if (v.is_text()) return v.marked() ? "Markup(" + text_repr(v.text()) + ")" : text_repr(v.text());
  if (v.is_undefined()) return "Undefined";
  const auto joined = [](const std::vector<template_value>& items) {
    std::string out;
    for (const auto& item : items) out += (out.empty() ? "" : ", ") + repr(item);
    return out;
  };
  if (const auto* s = v.sequence()) {
    using kind = template_sequence::kind;
    switch (s->what) {
      case kind::list:
        return "[" + joined(s->items) + "]";
      case kind::tuple:
        return "(" + joined(s->items) + (s->items.size() == 1 ? ",)" : ")");
      case kind::range:
        return s->printed;
      case kind::view:
        return s->printed + "([" + joined(s->items) + "])";
      case kind::generator:
        break;
    }
    template_refuses("a generator is printed: 'list' makes a list of it");
  }
  if (const auto* d = v.dictionary()) {
    std::string out = "{";
    for (const auto& [key, value] : d->items) out += (out.size() == 1 ? "" : ", ") + repr(key) + ": " + repr(value);
    return out + "}";
  }
  if (v.is_none()) return "None";
  if (v.is_bool()) return v.truth() ? "True" : "False";
  if (v.is_integer()) return std::to_string(v.integer());
  if (v.is_float()) return float_text(v.number());
  template_refuses("a " + v.type() + " is printed");
}

GRADUS_IMPL std::string str(const template_value& v) {
  return v.is_text() ? v.text() : v.is_undefined() ? std::string() : repr(v);
}

GRADUS_IMPL bool is_exact(const template_value& v) {
  if (v.is_float() || v.integer() == 0) return true;
  const auto size =
      v.integer() < 0 ? 0 - static_cast<std::uint64_t>(v.integer()) : static_cast<std::uint64_t>(v.integer());
  return static_cast<int>(std::bit_width(size)) - std::countr_zero(size) <= 53;
}
inline void check_comparable(const template_value& a, const template_value& b) {
  if (a.is_float() != b.is_float() && (!is_exact(a) || !is_exact(b)))
    template_refuses("an integer beyond 53 bits beside a float");
}

GRADUS_IMPL bool equal(const template_value& a, const template_value& b) {
  if (a.is_number() && b.is_number()) {
    check_comparable(a, b);
    return a.is_integer() && b.is_integer() ? a.integer() == b.integer() : a.number() == b.number();
  }
  if (a.is_text() && b.is_text()) return a.text() == b.text();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (const auto *s = a.sequence(), *t = b.sequence(); s != nullptr && t != nullptr) {
    if (s == t) return true;
    using kind = template_sequence::kind;
    if (s->what == kind::view && t->what == kind::view && s->printed != "dict_values" && t->printed != "dict_values")
      template_refuses("two dictionaries' keys or items are compared");
    if (s->what != t->what || s->what == kind::view || s->what == kind::generator) return false;
    return std::ranges::equal(s->items, t->items, equal);
  }
  if (const auto *c = a.dictionary(), *d = b.dictionary(); c != nullptr && d != nullptr) {
    return c->items.size() == d->items.size() && std::ranges::all_of(c->items, [&](const auto& item) {
             const template_value* other = d->find(item.first);
             return other != nullptr && equal(item.second, *other);
           });
  }
  const auto *o = a.object<template_object>(), *p = b.object<template_object>();
  return (a.is_none() && b.is_none()) || (o != nullptr && o == p);
}

GRADUS_IMPL bool less(const template_value& a, const template_value& b) {
  if (a.is_number() && b.is_number()) {
    check_comparable(a, b);
    return a.is_integer() && b.is_integer() ? a.integer() < b.integer() : a.number() < b.number();
  }
  if (a.is_text() && b.is_text()) return a.text() < b.text();  // UTF-8 has the order of its characters
  for (const auto& v : {a, b})
    if (v.is_undefined()) template_raises(v.why());
  const auto *s = a.sequence(), *t = b.sequence();
  using kind = template_sequence::kind;
  if (s != nullptr && t != nullptr && s->what == t->what && (s->what == kind::list || s->what == kind::tuple)) {
    for (std::size_t i = 0; i < std::min(s->items.size(), t->items.size()); ++i)
      if (!equal(s->items[i], t->items[i])) return less(s->items[i], t->items[i]);
    return s->items.size() < t->items.size();
  }
  template_raises("'" + a.type() + "' and '" + b.type() + "' have no order");
}

GRADUS_IMPL const template_value* template_dictionary::find(const template_value& key) const {
  const auto found = std::ranges::find_if(items, [&](const auto& item) { return equal(item.first, key); });
  return found == items.end() ? nullptr : &found->second;
}

GRADUS_IMPL std::string to_json(const template_value& v, const json_style& style, int level) {
  const auto quoted = [&](const std::string& text) {
    std::string out = "\"";
    unicode::for_each_character(text, [&](char32_t c, std::string_view bytes) {
      constexpr std::string_view plain = "\"\\\n\r\t\f\b", short_form = "\"\\nrtfb";
      if (const std::size_t at = c < 128 ? plain.find(static_cast<char>(c)) : std::string::npos; at != plain.npos) {
        out += '\\';
        out += short_form[at];
      } else if (c < 0x20 || (style.ascii && c > 0x7E)) {
        for (const char32_t unit :
             c < 0x10000 ? std::u32string{c} : std::u32string{0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF)}) {
          out += "\\u";
          append_hex(out, unit, 4);
        }
      } else {
        out += bytes;
      }
    });
    return out + '"';
  };
  const auto line = [&](int deep) {
    std::string out;
    if (style.indented) {
      out = "\n";
      for (int i = 0; i < deep; ++i) out += style.indent;
    }
    return out;
  };
  const auto scalar = [&](const template_value& x) -> std::string {
    if (x.is_none()) return "null";
    if (x.is_bool()) return x.truth() ? "true" : "false";
    if (x.is_float() && !std::isfinite(x.number()))
      return std::isnan(x.number()) ? "NaN" : x.number() < 0 ? "-Infinity" : "Infinity";
    if (x.is_number()) return repr(x);
    template_raises("a value of type " + x.type() + " is not JSON");
  };
  if (v.is_text()) return quoted(v.text());
  if (const auto* s = v.sequence();
      s != nullptr && (s->what == template_sequence::kind::list || s->what == template_sequence::kind::tuple)) {
    if (s->items.empty()) return "[]";
    std::string out = "[" + line(level + 1);
    for (const auto& item : s->items)
      out += (&item == s->items.data() ? "" : style.between + line(level + 1)) + to_json(item, style, level + 1);
    return out + line(level) + "]";
  }
  if (const auto* d = v.dictionary()) {
    if (d->items.empty()) return "{}";
    auto items = d->items;
    if (style.sorted)
      std::ranges::stable_sort(items, [](const auto& a, const auto& b) { return less(a.first, b.first); });
    std::string out = "{" + line(level + 1);
    for (const auto& [key, value] : items)
      out += (&key == &items[0].first ? "" : style.between + line(level + 1)) +
             (key.is_text() ? quoted(key.text()) : quoted(scalar(key))) + style.after_key +
             to_json(value, style, level + 1);
    return out + line(level) + "}";
  }
  return scalar(v);
}

GRADUS_IMPL std::u32string characters(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  unicode::for_each_character(text, [&](char32_t c, std::string_view) { out += c; });
  return out;
}
GRADUS_IMPL std::string from_characters(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) unicode::append_utf8(out, c);
  return out;
}
GRADUS_IMPL bool is_python_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || unicode::is_space(c); }

GRADUS_IMPL std::string in_upper_case(std::string_view text) {
  std::string out;
  unicode::for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (c < 128) {
      out += c >= U'a' && c <= U'z' ? static_cast<char>(c - 32) : static_cast<char>(c);
      return;
    }
    // Letters whose upper case has another lower case.
    constexpr std::u32string_view from = U"\u00B5\u0131\u017F\u03C2\u03D0\u03D1\u03D5\u03D6\u03F0\u03F1\u03F5\u1E9B";
    constexpr std::u32string_view to = U"\u039CIS\u03A3\u0392\u0398\u03A6\u03A0\u039A\u03A1\u0395\u1E60";
    if (c == 0xDF) {
      out += "SS";
    } else if (const std::size_t at = from.find(c); at != from.npos) {
      unicode::append_utf8(out, to[at]);
    } else if (const std::size_t pair = lower_case.find(c); pair != lower_case.npos) {
      unicode::append_utf8(out, upper_case[pair]);
    } else if (c == 0x149 || c == 0x1F0 || c == 0x390 || c == 0x3B0 || c == 0x587 || (c >= 0x1C80 && c <= 0x1C88) ||
               (c >= 0x1E96 && c <= 0x1E9A) || (c >= 0x1F50 && c <= 0x1FFC) || (c >= 0xFB00 && c <= 0xFB17) ||
               c == 0x345 || c == 0x1C5 || c == 0x1C8 || c == 0x1CB || c == 0x1F2) {
      template_refuses("the upper case of " + std::string(bytes) + " is not known here");
    } else {
      out += bytes;
    }
  });
  return out;
}

GRADUS_IMPL std::string in_lower_case(std::string_view text) {
  const std::u32string all = characters(text);
  std::u32string out = characters(unicode::lower_case(text));
  const auto letter = [&](std::size_t i) {
    return i < all.size() && unicode::classify(all[i]) == unicode::character_class::letter;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != 0x3A3) continue;  // a sigma that ends a word has its own form
    if (out.size() != all.size() || (i + 1 < all.size() && all[i + 1] > 127 && !letter(i + 1)) ||
        (i > 0 && all[i - 1] > 127 && !letter(i - 1)))
      template_refuses("the lower case of this text with a sigma is not known here");
    if (i > 0 && letter(i - 1) && !letter(i + 1)) out[i] = 0x3C2;
  }
  return from_characters(out);
}

}  // namespace detail

GRADUS_IMPL template_value::template_value(std::string text, bool marked)
    : data_(std::make_shared<const detail::template_text>(detail::template_text{std::move(text), marked})) {}
GRADUS_IMPL template_value::template_value(list items)
    : template_value(sequence({.what = detail::template_sequence::kind::list, .items = std::move(items)})) {}
GRADUS_IMPL template_value template_value::sequence(detail::template_sequence s) {
  for (const auto& item : s.items) {
    s.depth = std::max(s.depth, detail::checked_depth(item.depth() + 1));
    s.weight = detail::sum_of_weights(s.weight, item);
  }
  return template_value(std::make_shared<const detail::template_sequence>(std::move(s)));
}
GRADUS_IMPL template_value template_value::dictionary(pairs items) {
  detail::template_dictionary d;
  for (auto& [key, value] : items) {
    d.depth = std::max(d.depth, detail::checked_depth(value.depth() + 1));
    d.weight = detail::sum_of_weights(detail::sum_of_weights(d.weight, key), value);
    if (auto* old = const_cast<template_value*>(d.find(key)))  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      *old = std::move(value);
    else d.items.emplace_back(std::move(key), std::move(value));
  }
  return template_value(std::make_shared<const detail::template_dictionary>(std::move(d)));
}
GRADUS_IMPL template_value template_value::undefined(std::string why) {
  return template_value(std::make_shared<const detail::template_undefined>(detail::template_undefined{std::move(why)}));
}
GRADUS_IMPL template_value template_value::object(detail::template_object* o) {
  template_value v;
  v.data_ = o;
  return v;
}
GRADUS_IMPL const detail::template_sequence* template_value::sequence() const {
  const auto* s = std::get_if<shared<detail::template_sequence>>(&data_);
  return s == nullptr ? nullptr : s->get();
}
GRADUS_IMPL const detail::template_dictionary* template_value::dictionary() const {
  const auto* d = std::get_if<shared<detail::template_dictionary>>(&data_);
  return d == nullptr ? nullptr : d->get();
}
GRADUS_IMPL int template_value::depth() const {
  return sequence() != nullptr ? sequence()->depth : dictionary() != nullptr ? dictionary()->depth : 0;
}
GRADUS_IMPL std::size_t template_value::weight() const {
  if (is_text()) return 1 + text().size() / 16;
  return sequence() != nullptr ? sequence()->weight : dictionary() != nullptr ? dictionary()->weight : 1;
}
GRADUS_IMPL bool template_value::truth() const {
  if (is_number()) return number() != 0;
  if (is_text()) return !text().empty();
  if (const auto* s = sequence()) return s->what == detail::template_sequence::kind::generator || !s->items.empty();
  if (const auto* d = dictionary()) return !d->items.empty();
  return !is_none() && !is_undefined();
}
GRADUS_IMPL std::string template_value::type() const {
  using kind = detail::template_sequence::kind;
  if (is_text()) return "str";
  if (is_bool()) return "bool";
  if (is_integer()) return "int";
  if (is_float()) return "float";
  if (is_none()) return "NoneType";
  if (is_undefined()) return "Undefined";
  if (dictionary() != nullptr) return "dict";
  if (const auto* s = sequence())
    return s->what == kind::list        ? "list"
           : s->what == kind::tuple     ? "tuple"
           : s->what == kind::range     ? "range"
           : s->what == kind::generator ? "generator"
                                        : s->printed;
  return "function";
}

GRADUS_IMPL template_value parse_template_value(std::string_view json, const std::string& name) {
  /// Builds values from the parser's events.
  struct builder {
    using parsed = nlohmann::json;
    struct open_value {
      bool is_object = false;
      template_value::list items = {};
      template_value::pairs pairs = {};
      std::string key = {};
    };
    std::vector<open_value> open = {};
    template_value result = {};
    std::string problem = {};

    bool put(template_value v) {
      if (open.empty()) result = std::move(v);
      else if (open.back().is_object) open.back().pairs.emplace_back(std::move(open.back().key), std::move(v));
      else open.back().items.push_back(std::move(v));
      return true;
    }
    bool start(bool is_object) {
      if (open.size() == template_value::deepest) {
        problem = "nests deeper than " + std::to_string(template_value::deepest) + " levels";
        return false;
      }
      open.push_back({is_object});
      return true;
    }
    bool end() {
      open_value all = std::move(open.back());
      open.pop_back();
      return put(all.is_object ? template_value::dictionary(std::move(all.pairs))
                               : template_value(std::move(all.items)));
    }
    bool null() { return put({}); }
    bool boolean(bool b) { return put(b); }
    bool number_integer(std::int64_t i) { return put(i); }
    bool number_unsigned(std::uint64_t i) {
      if (i <= std::uint64_t(std::numeric_limits<std::int64_t>::max())) return put(static_cast<std::int64_t>(i));
      problem = "has an integer beyond 64 bits";
      return false;
    }
    bool number_float(double d, const std::string&) { return put(d); }
    bool string(std::string& s) { return put(std::move(s)); }
    bool binary(parsed::binary_t&) { return false; }
    bool start_object(std::size_t) { return start(true); }
    bool start_array(std::size_t) { return start(false); }
    bool end_object() { return end(); }
    bool end_array() { return end(); }
    bool key(std::string& k) {
      open.back().key = std::move(k);
      return true;
    }
    bool parse_error(std::size_t position, const std::string&, const parsed::exception&) {
      problem = "is not JSON: it ends or has an error at byte " + std::to_string(position);
      return false;
    }
  };
  builder events;
  auto input = nlohmann::detail::input_adapter(json);  // without readers of other formats, as in io/json.hpp
  if (!nlohmann::detail::parser<nlohmann::json, decltype(input)>(std::move(input)).sax_parse(&events))
    throw error(name + ": " + events.problem);
  return std::move(events.result);
}

}  // namespace gradus
