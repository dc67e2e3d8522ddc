#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "../core/printable.hpp"
#include "../tokenizer/unicode.hpp"
#include "template_syntax.hpp"

namespace gradus::detail {

GRADUS_IMPL std::string at_line(int line, int column, const std::string& message) {
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + message;
}

struct template_token {
  enum class kind { data, print_begin, print_end, block_begin, block_end, name, text, integer, real, sign, end };
  kind what = kind::end;
  std::string text = {};
  int line = 1, column = 1;
};

/// Cuts a template into tokens; whitespace around its tags is gone as `trim_blocks` and `lstrip_blocks` say.
class template_lexer {
 public:
  using kind = template_token::kind;

  explicit template_lexer(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {  // each kind of line's end is a newline
      if (text[i] == '\r') {
        all_ += '\n';
        if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
      } else {
        all_ += text[i];
      }
    }
    if (all_.ends_with('\n')) all_.pop_back();
  }

  std::vector<template_token> tokens() {
    while (at_ < all_.size()) next_data();
    add(kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    template_fails(chat_template_error::kind::parse, at_line(line_, column_, message));
  }
  bool sees(std::string_view what) const { return std::string_view(all_).substr(at_).starts_with(what); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < all_.size() ? all_[at_ + ahead] : '\0'; }
  std::size_t space_at(std::size_t at) const {
    if (at >= all_.size()) return 0;
    const auto c = unicode::read_utf8(all_, at);
    return is_python_space(c.value) ? c.bytes : 0;
  }
  void go(std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      const char c = all_[at_++];
      if (c == '\n') {
        ++line_;
        column_ = 1;
      } else if ((c & 0xC0) != 0x80) {
        ++column_;
      }
    }
  }
  void skip_spaces() {
    while (const std::size_t bytes = space_at(at_)) go(bytes);
  }
  void add(kind what, std::string text) { tokens_.push_back({what, std::move(text), line_, column_}); }

  /// A text up to a tag, without the blanks that the tag takes away.
  void add_data(std::string_view data, char sign, bool strips_line) {
    if (sign == '-') {
      std::size_t size = 0;
      unicode::for_each_character(data, [&](char32_t c, std::string_view bytes) {
        if (!is_python_space(c)) size = static_cast<std::size_t>(bytes.data() + bytes.size() - data.data());
      });
      data = data.substr(0, size);
    } else if (sign != '+' && strips_line) {
      const std::size_t line = data.rfind('\n') + 1;
      const std::u32string last = characters(data.substr(line));
      if ((line > 0 || line_starts_) && std::ranges::all_of(last, is_python_space)) data = data.substr(0, line);
    }
    if (!data.empty()) add(kind::data, std::string(data));
  }
  char sign_at(std::size_t at) const {
    return at < all_.size() && (all_[at] == '-' || all_[at] == '+') ? all_[at] : ' ';
  }
  /// What follows the end of a block or a comment.
  void end_tag(std::size_t bytes, char sign) {
    go(bytes);
    if (sign == '-') skip_spaces();
    else if (sign != '+' && peek() == '\n') go(1);
    line_starts_ = at_ > 0 && all_[at_ - 1] == '\n';
  }
  /// The end of `raw begin`, or of `endraw`, if it is there: NAME, blanks, an end's sign.
  std::optional<std::pair<std::size_t, char>> raw_tag(std::size_t begin, std::string_view name) const {
    std::size_t i = begin + 2 + (sign_at(begin + 2) == ' ' ? 0 : 1);
    while (const std::size_t bytes = space_at(i)) i += bytes;
    if (!std::string_view(all_).substr(i).starts_with(name)) return {};
    i += name.size();
    while (const std::size_t bytes = space_at(i)) i += bytes;
    const char sign = sign_at(i);
    if (sign == '+' && name == "raw") return {};
    if (sign != ' ') ++i;
    if (!std::string_view(all_).substr(i).starts_with("%}")) return {};
    return std::pair{i + 2, sign};
  }

  void next_data() {
    std::size_t tag = at_;
    while (tag < all_.size() && !(all_[tag] == '{' && tag + 1 < all_.size() &&
                                  (all_[tag + 1] == '{' || all_[tag + 1] == '%' || all_[tag + 1] == '#')))
      ++tag;
    const std::string_view data = std::string_view(all_).substr(at_, tag - at_);
    if (tag == all_.size()) {
      add_data(data, '+', false);
      go(data.size());
      return;
    }
    const char type = all_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(data, sign, type != '{');
    go(data.size());
    line_starts_ = false;
    if (const auto raw = type == '%' ? raw_tag(tag, "raw") : std::nullopt) {
      go(raw->first - at_);
      if (raw->second == '-') skip_spaces();
      line_starts_ = all_[at_ - 1] == '\n';
      for (std::size_t end = at_; end + 1 < all_.size(); ++end) {
        const auto close = all_[end] == '{' && all_[end + 1] == '%' ? raw_tag(end, "endraw") : std::nullopt;
        if (!close) continue;
        add_data(std::string_view(all_).substr(at_, end - at_), sign_at(end + 2), true);
        go(close->first - at_);
        end_tag(0, close->second);
        return;
      }
      if (at_ < all_.size()) fail("'raw' has no end");
      return;
    }
    if (type == '#') {
      const std::size_t end = all_.find("#}", tag + 2);
      if (end == std::string::npos && tag + 2 == all_.size()) return go(2);
      if (end == std::string::npos) fail("a comment has no end");
      const char last = end > tag + (sign == ' ' ? 2 : 3) ? sign_at(end - 1) : ' ';
      go(end - at_);
      end_tag(2, last);
      return;
    }
    add(type == '{' ? kind::print_begin : kind::block_begin, "");
    go(2 + (sign == ' ' ? 0 : 1));
    next_tag(type == '{');
  }

  void next_tag(bool prints) {
    std::string open;
    while (true) {
      skip_spaces();
      if (at_ >= all_.size()) {
        add(kind::end, "");
        return;
      }
      const char sign = sign_at(at_);
      const std::size_t signs = sign == ' ' || (prints && sign == '+') ? 0 : 1;
      if (open.empty() && std::string_view(all_).substr(at_ + signs).starts_with(prints ? "}}" : "%}")) {
        add(prints ? kind::print_end : kind::block_end, "");
        if (prints) {
          go(signs + 2);
          if (signs != 0) skip_spaces();
          line_starts_ = all_[at_ - 1] == '\n';
        } else {
          end_tag(signs + 2, sign);
        }
        return;
      }
      next_token(open);
    }
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name(char32_t c) {
    return c == U'_' ||
           (c < 128 ? (c >= U'0' && c <= U'9') || (c | 32) - U'a' < 26 : unicode::is(c, unicode::property::word));
  }
  /// Digits with single underscores between them.
  std::size_t digits(std::size_t from) const {
    std::size_t i = from;
    while (is_digit(peek(i)) || (i > from && peek(i) == '_' && is_digit(peek(i + 1)))) ++i;
    return i;
  }

  void next_token(std::string& open) {
    const char c = peek();
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return quoted(c);
    if (const auto first = unicode::read_utf8(all_, at_); first.valid && is_name(first.value)) {
      std::size_t bytes = 0;
      while (at_ + bytes < all_.size()) {
        const auto next = unicode::read_utf8(all_, at_ + bytes);
        if (!next.valid || !is_name(next.value)) break;
        bytes += next.bytes;
      }
      add(kind::name, all_.substr(at_, bytes));
      return go(bytes);
    }
    constexpr std::array<std::string_view, 25> signs{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                     "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                     ">",  "<",  "=",  ".",  ":",  "|",  ","};
    const auto found = std::ranges::find_if(signs, [&](std::string_view s) { return sees(s); });
    if (found == signs.end()) fail("unexpected " + printable(all_.substr(at_, unicode::read_utf8(all_, at_).bytes)));
    if (*found == "(" || *found == "[" || *found == "{") {
      open += *found == "(" ? ')' : *found == "[" ? ']' : '}';
    } else if (*found == ")" || *found == "]" || *found == "}") {
      if (open.empty() || open.back() != (*found)[0]) fail("unexpected '" + std::string(*found) + "'");
      open.pop_back();
    }
    add(kind::sign, std::string(*found));
    go(found->size());
  }

  void number() {
    std::size_t size = digits(0);
    bool real = false;
    if (tokens_.back().text != "." || tokens_.back().what != kind::sign) {
      if (peek(size) == '.' && is_digit(peek(size + 1))) {
        size = digits(size + 1);
        real = true;
      }
      const std::size_t sign = peek(size + 1) == '+' || peek(size + 1) == '-' ? 1 : 0;
      if ((peek(size) | 32) == 'e' && is_digit(peek(size + 1 + sign))) {
        size = digits(size + 1 + sign);
        real = true;
      }
    }
    if (!real && peek() == '0' && (peek(1) | 32) > 'a' &&
        std::string_view("box").find(static_cast<char>(peek(1) | 32)) != std::string_view::npos) {
      size = 2;
      while (is_hex(peek(size)) || peek(size) == '_') ++size;
    } else if (!real && peek() == '0') {
      size = 1;
      while (peek(size) == '0') ++size;
    }
    std::string text = all_.substr(at_, size);
    std::erase(text, '_');
    add(real ? kind::real : kind::integer, std::move(text));
    go(size);
  }

  void quoted(char quote) {
    const template_token place{.line = line_, .column = column_};
    std::u32string out;
    const auto end = [&] {
      if (at_ >= all_.size()) fail("a text has no end");
    };
    go(1);
    for (end(); peek() != quote; end()) {
      if (peek() != '\\') {
        const auto c = unicode::read_utf8(all_, at_);
        out += c.value;
        go(c.bytes);
        continue;
      }
      go(1);
      end();
      const char c = peek();
      constexpr std::string_view names = "ntrabfv\\'\"", meant = "\n\t\r\a\b\f\v\\'\"";
      if (const std::size_t known = names.find(c); known != names.npos) {
        out += static_cast<char32_t>(meant[known]);
        go(1);
      } else if (c == '\n') {
        go(1);
      } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
        const bool octal = c <= '7';
        const std::size_t from = octal ? 0 : 1;
        std::size_t size = from;
        const std::size_t most = octal ? 3 : c == 'x' ? 3 : c == 'u' ? 5 : 9;
        while (size < most && (octal ? peek(size) >= '0' && peek(size) <= '7' : is_hex(peek(size)))) ++size;
        if (!octal && size < most) fail("a text has an incomplete escape");
        std::uint32_t value = 0;
        std::from_chars(all_.data() + at_ + from, all_.data() + at_ + size, value, octal ? 8 : 16);
        if (value > 0x10FFFF) fail("a text has an escape of no character");
        if (value >= 0xD800 && value < 0xE000) template_refuses(at_line(line_, column_, "half a character is written"));
        out += value;
        go(size);
      } else if (c == 'N') {
        template_refuses(at_line(line_, column_, "characters by their names are not known here"));
      } else {
        out += U'\\';
      }
    }
    go(1);
    tokens_.push_back({kind::text, from_characters(out), place.line, place.column});
  }
  static bool is_hex(char c) { return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); }

  std::string all_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
  bool line_starts_ = true;
  std::vector<template_token> tokens_;
};

class template_parser {
 public:
  using kind = template_node::kind;
  using token = template_token::kind;

  explicit template_parser(std::string_view text) : tokens_(template_lexer(text).tokens()) {}

  std::vector<template_node> parse() {
    std::vector<template_node> all = body({});
    if (!unknown_.empty()) template_fails(chat_template_error::kind::parse, unknown_[0]);
    return all;
  }

 private:
  const template_token& now() const { return tokens_[at_]; }
  const template_token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  [[noreturn]] void fail(const std::string& message) const {
    template_fails(chat_template_error::kind::parse, at_line(now().line, now().column, message));
  }
  std::string here() const {
    switch (now().what) {
      case token::end:
        return "the end";
      case token::print_end:
        return "'}}'";
      case token::block_end:
        return "'%}'";
      default:
        return "'" + printable(now().text) + "'";
    }
  }
  bool is(token what, std::string_view text) const { return now().what == what && now().text == text; }
  bool is_sign(std::string_view s) const { return is(token::sign, s); }
  bool is_name(std::string_view s) const { return is(token::name, s); }
  bool skip(token what, std::string_view text) {
    const bool found = is(what, text);
    if (found) ++at_;
    return found;
  }
  void expect(token what, std::string_view text) {
    if (!skip(what, text))
      fail(what == token::block_end   ? "'%}' is expected, not " + here()
           : what == token::print_end ? "'}}' is expected, not " + here()
                                      : "'" + std::string(text) + "' is expected, not " + here());
  }
  std::string expect_name() {
    if (now().what != token::name) fail("a name is expected, not " + here());
    return tokens_[at_++].text;
  }
  template_node node(kind what) const { return {.what = what, .line = now().line, .column = now().column}; }
  template <class... Nodes>
  static template_node with(template_node n, Nodes&&... children) {
    ((n.depth = std::max(n.depth, children.depth + 1), n.children.push_back(std::forward<Nodes>(children))), ...);
    if (n.depth > 200)
      template_fails(chat_template_error::kind::limit,
                     at_line(n.line, n.column, "an expression has more than 200 operations in a row"));
    return n;
  }
  /// What nests in a text nests in the calls that read it.
  struct deeper {
    explicit deeper(template_parser& p) : parser(p) {
      if (++parser.depth_ > 100)
        template_fails(chat_template_error::kind::limit,
                       at_line(parser.now().line, parser.now().column, "the template nests deeper than 100 levels"));
    }
    ~deeper() { --parser.depth_; }
    deeper(const deeper&) = delete;
    deeper& operator=(const deeper&) = delete;
    template_parser& parser;
  };
  /// Where Jinja asks only at run time whether a filter exists.
  template <class F>
  auto softly(bool soft, const F& f) {
    const bool before = std::exchange(soft_, soft);
    auto result = f();
    soft_ = before;
    return result;
  }

  // ---- statements --------------------------------------------------------------------------------------------------
  std::vector<template_node> body(const std::vector<std::string_view>& ends) {
    const deeper guard(*this);
    std::vector<template_node> all;
    while (now().what != token::end) {
      if (now().what == token::data) {
        all.push_back(node(kind::text));
        all.back().text = tokens_[at_++].text;
      } else if (now().what == token::print_begin) {
        ++at_;
        template_node n = node(kind::print);
        n.children.push_back(tuple_or_one());
        expect(token::print_end, "");
        all.push_back(std::move(n));
      } else {
        if (now().what != token::block_begin) fail("unexpected " + here());
        ++at_;
        if (now().what == token::name && std::ranges::find(ends, now().text) != ends.end()) return all;
        statement(all);
        expect(token::block_end, "");
      }
    }
    if (!ends.empty()) fail("the template ends before '" + std::string(ends.back()) + "'");
    return all;
  }
  std::vector<template_node> block(const std::vector<std::string_view>& ends, bool soft = false) {
    skip(token::sign, ":");
    expect(token::block_end, "");
    return softly(soft, [&] { return body(ends); });
  }
  void statement(std::vector<template_node>& to) {
    const deeper guard(*this);
    if (now().what != token::name) fail("a tag's name is expected, not " + here());
    template_node n = node(kind::nothing);
    const std::string tag = tokens_[at_++].text;
    if (tag == "print") {
      for (n.what = kind::print; now().what != token::block_end;) {
        template_node one = n;
        if (to.size() > 0 && !n.text.empty()) expect(token::sign, ",");
        one.children.push_back(expression());
        to.push_back(std::move(one));
        n.text = "more";
      }
      return;
    }
    if (tag == "if") {
      n.what = kind::condition;
      softly(true, [&] {
        n.children.push_back(tuple_or_one(false));
        n.bodies.push_back(block({"elif", "else", "endif"}, true));
        while (skip(token::name, "elif")) {
          n.children.push_back(tuple_or_one(false));
          n.bodies.push_back(block({"elif", "else", "endif"}, true));
        }
        if (skip(token::name, "else")) n.bodies.push_back(block({"endif"}, true));
        return 0;
      });
      ++at_;
    } else if (tag == "for") {
      loop(n);
    } else if (tag == "set") {
      n.children.push_back(target(true));
      if (skip(token::sign, "=")) {
        n.what = kind::set;
        n.children.push_back(tuple_or_one());
      } else {
        n.what = kind::set_block;
        if (is_sign("|")) n.children.push_back(softly(false, [&] { return filters(node(kind::nothing), false); }));
        n.bodies.push_back(block({"endset"}));
        ++at_;
      }
    } else if (tag == "macro") {
      n.what = kind::macro;
      n.text = expect_name();
      signature(n);
      macro_body(n, "endmacro");
    } else if (tag == "call") {
      n.what = kind::call_block;
      if (is_sign("(")) signature(n);
      n.children.push_back(expression());
      if (n.children.back().what != kind::call) fail("a call is expected in 'call'");
      macro_body(n, "endcall");
    } else if (tag == "generation") {
      n.what = kind::generation;
      macro_body(n, "endgeneration");
    } else if (tag == "filter") {
      n.what = kind::filter_block;
      n.children.push_back(softly(false, [&] { return filters(node(kind::nothing), true); }));
      n.bodies.push_back(block({"endfilter"}));
      ++at_;
    } else if (tag == "with") {
      n.what = kind::with;
      while (now().what != token::block_end) {
        if (!n.children.empty()) expect(token::sign, ",");
        n.children.push_back(target(false));
        expect(token::sign, "=");
        n.children.push_back(expression());
      }
      n.bodies.push_back(block({"endwith"}));
      ++at_;
    } else if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail("'" + tag + "' is outside a loop");
      n.what = tag == "break" ? kind::leave : kind::next;
    } else if (std::string_view(" block extends include import from autoescape ").find(" " + tag + " ") !=
               std::string::npos) {
      template_refuses(at_line(n.line, n.column, "'" + tag + "' is no part of a chat template"));
    } else {
      --at_;
      fail("unknown tag '" + printable(tag) + "'");
    }
    to.push_back(std::move(n));
  }
  void loop(template_node& n) {
    n.what = kind::loop;
    ++fors_;
    n.children.push_back(target(false));
    expect(token::name, "in");
    n.children.push_back(tuple_or_one(false, true));
    n.children.push_back(node(kind::nothing));
    if (skip(token::name, "if")) n.children.back() = softly(false, [&] { return expression(); });
    n.flag = skip(token::name, "recursive");
    ++loops_;
    n.bodies.push_back(block({"endfor", "else"}));
    --loops_;
    n.bodies.emplace_back();
    if (tokens_[at_++].text == "else") {
      n.bodies.back() = block({"endfor"});
      ++at_;
    }
    --fors_;
  }
  void macro_body(template_node& n, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    n.bodies.push_back(block({end}));
    loops_ = loops;
    ++at_;
  }
  void signature(template_node& n) {
    expect(token::sign, "(");
    bool defaults = false;
    while (!is_sign(")")) {
      if (!n.arguments.empty()) expect(token::sign, ",");
      template_node::argument a{.name = expect_name()};
      if (std::ranges::any_of(n.arguments, [&](const auto& other) { return other.name == a.name; }))
        fail("two parameters are named '" + printable(a.name) + "'");
      if (skip(token::sign, "=")) {
        defaults = true;
        a.stars = 1;  // it has a default
        n.children.push_back(expression());
        a.child = n.children.size() - 1;
      } else if (a.name == "caller") {
        fail("a parameter 'caller' needs a default");
      } else if (defaults) {
        fail("a parameter without a default follows one that has one");
      }
      n.arguments.push_back(std::move(a));
    }
    ++at_;
  }

  // ---- what is assigned to -----------------------------------------------------------------------------------------
  template_node target_name(bool spaces) {
    if (skip(token::sign, "(")) {
      template_node inner = target(spaces);
      expect(token::sign, ")");
      return inner;
    }
    template_node n = node(kind::name);
    n.text = expect_name();
    if (std::string_view(" true false none True False None ").find(" " + n.text + " ") != std::string::npos)
      fail("'" + n.text + "' cannot be assigned to");
    if (n.text == "loop" && fors_ > 0) fail("'loop' cannot be assigned to in a loop");
    if (spaces && skip(token::sign, ".")) {
      n.what = kind::space_attribute;
      n.names.push_back(expect_name());
    }
    return n;
  }
  template_node target(bool spaces) {
    const deeper guard(*this);
    template_node all = node(kind::tuple);
    bool more = true, is_tuple = false;
    while (more) {
      if (!all.children.empty() && (is_sign(")") || now().what == token::block_end)) break;
      all.children.push_back(target_name(spaces));
      more = skip(token::sign, ",");
      is_tuple = is_tuple || more;
    }
    return is_tuple ? all : template_node(std::move(all.children[0]));
  }

  // ---- expressions -------------------------------------------------------------------------------------------------
  template_node tuple_or_one(bool choices = true, bool loop = false, bool in_parentheses = false) {
    template_node all = node(kind::tuple);
    bool more = true, is_tuple = false;
    while (more) {
      if (now().what == token::print_end || now().what == token::block_end || is_sign(")") ||
          (loop && is_name("recursive"))) {
        if (all.children.empty() && !in_parentheses) fail("an expression is expected, not " + here());
        is_tuple = true;
        break;
      }
      all.children.push_back(choices ? expression() : any_of());
      more = skip(token::sign, ",");
      is_tuple = is_tuple || more;
    }
    return is_tuple ? all : template_node(std::move(all.children[0]));
  }
  template_node expression() {
    const deeper guard(*this);
    const bool soft_before = soft_;
    const std::size_t unknown_before = unknown_.size();
    template_node first = any_of();
    while (is_name("if")) {
      template_node n = node(kind::choice);
      ++at_;
      soft_ = true;
      unknown_.resize(unknown_before);  // what may be left out may be unknown
      template_node condition = any_of();
      template_node other = skip(token::name, "else") ? expression() : node(kind::nothing);
      soft_ = soft_before;
      first = with(std::move(n), std::move(condition), std::move(first), std::move(other));
    }
    return first;
  }
  template_node any_of() {
    template_node left = all_of();
    while (is_name("or")) {
      template_node n = node(kind::any_of);
      ++at_;
      left = with(std::move(n), std::move(left), all_of());
    }
    return left;
  }
  template_node all_of() {
    template_node left = negation();
    while (is_name("and")) {
      template_node n = node(kind::all_of);
      ++at_;
      left = with(std::move(n), std::move(left), negation());
    }
    return left;
  }
  template_node negation() {
    if (!is_name("not")) return comparison();
    const deeper guard(*this);
    template_node n = node(kind::negation);
    ++at_;
    return with(std::move(n), negation());
  }
  template_node comparison() {
    template_node n = node(kind::compare);
    n.children.push_back(sum());
    while (true) {
      if (is_name("not") && ahead().what == token::name && ahead().text == "in") {
        at_ += 2;
        n.names.emplace_back("not in");
      } else if (is_name("in") || is_sign("==") || is_sign("!=") || is_sign("<") || is_sign("<=") || is_sign(">") ||
                 is_sign(">=")) {
        n.names.push_back(tokens_[at_++].text);
      } else {
        break;
      }
      n.children.push_back(sum());
    }
    return n.names.empty() ? template_node(std::move(n.children[0])) : n;
  }
  /// Operators of one rank, from the left.
  template <class Next>
  template_node from_left(std::initializer_list<std::string_view> signs, const Next& next) {
    template_node left = next();
    while (now().what == token::sign && std::ranges::find(signs, now().text) != signs.end()) {
      template_node n = node(kind::arithmetic);
      n.text = tokens_[at_++].text;
      left = with(std::move(n), std::move(left), next());
    }
    return left;
  }
  template_node sum() {
    return from_left({"+", "-"}, [&] { return concat(); });
  }
  template_node concat() {
    template_node n = node(kind::concat);
    do n.children.push_back(product());
    while (skip(token::sign, "~"));
    return n.children.size() == 1 ? template_node(std::move(n.children[0])) : n;
  }
  template_node product() {
    return from_left({"*", "/", "//", "%"}, [&] { return from_left({"**"}, [&] { return unary(); }); });
  }
  template_node unary(bool filtered = true) {
    const deeper guard(*this);
    template_node n = node(kind::sign);
    if (is_sign("-") || is_sign("+")) {
      n.text = tokens_[at_++].text;
      n = with(std::move(n), unary(false));
    } else {
      n = primary();
    }
    n = postfix(std::move(n));
    return filtered ? filters_and_tests(std::move(n)) : n;
  }
  template_node constant(template_value value) const {
    template_node n = node(kind::constant);
    n.value = std::move(value);
    return n;
  }
  template_node primary() {
    template_node n = node(kind::constant);
    const template_token& t = now();
    if (t.what == token::name) {
      n.text = t.text;
      ++at_;
      if (n.text == "true" || n.text == "True" || n.text == "false" || n.text == "False")
        n.value = n.text[0] == 't' || n.text[0] == 'T';
      else if (n.text != "none" && n.text != "None") n.what = kind::name;
      return n;
    }
    if (t.what == token::text) {
      std::string all;
      while (now().what == token::text) all += tokens_[at_++].text;
      n.value = std::move(all);
      return n;
    }
    if (t.what == token::integer || t.what == token::real) {
      n.value = number();
      return n;
    }
    if (skip(token::sign, "(")) {
      n = tuple_or_one(true, false, true);
      expect(token::sign, ")");
      return n;
    }
    if (is_sign("[") || is_sign("{")) {
      const bool is_list = tokens_[at_++].text == "[";
      const std::string_view close = is_list ? "]" : "}";
      n.what = is_list ? kind::list : kind::dictionary;
      while (!is_sign(close)) {
        if (!n.children.empty()) {
          expect(token::sign, ",");
          if (is_sign(close)) break;
        }
        n.children.push_back(expression());
        if (is_list) continue;
        expect(token::sign, ":");
        n.children.push_back(expression());
      }
      ++at_;
      return n;
    }
    fail("an expression is expected, not " + here());
  }
  template_value number() {
    const template_token& t = tokens_[at_];
    const char* end = t.text.data() + t.text.size();
    std::from_chars_result read{};
    template_value result;
    if (t.what == token::real) {
      double d = 0;
      read = std::from_chars(t.text.data(), end, d);
      result = d;
    } else {
      const char base = t.text.size() > 1 ? static_cast<char>(t.text[1] | 32) : ' ';
      const int radix = base == 'x' ? 16 : base == 'o' ? 8 : base == 'b' ? 2 : 10;
      std::int64_t i = 0;
      read = std::from_chars(t.text.data() + (radix == 10 ? 0 : 2), end, i, radix);
      result = i;
    }
    if (read.ec == std::errc::result_out_of_range) template_refuses(at_line(t.line, t.column, "a number is too large"));
    if (read.ec != std::errc() || read.ptr != end) fail("a number is expected, not " + here());
    ++at_;
    return result;
  }
  template_node postfix(template_node n) {
    while (true) {
      if (is_sign("(")) {
        n = call(std::move(n));
      } else if (skip(token::sign, ".")) {
        template_node a = node(kind::attribute);
        if (now().what == token::integer) {
          a.what = kind::item;
          a = with(std::move(a), std::move(n), constant(number()));
        } else {
          a.text = expect_name();
          a = with(std::move(a), std::move(n));
        }
        n = std::move(a);
      } else if (is_sign("[")) {
        n = subscript(std::move(n));
      } else {
        return n;
      }
    }
  }
  template_node subscript(template_node n) {
    template_node s = node(kind::item);
    ++at_;
    const auto end_of_part = [&] { return is_sign(":") || is_sign("]") || is_sign(","); };
    const auto part = [&] { return end_of_part() ? node(kind::nothing) : expression(); };
    template_node first = is_sign(":") ? node(kind::nothing) : is_sign("]") ? node(kind::tuple) : expression();
    if (skip(token::sign, ":")) {
      s.what = kind::slice;
      template_node last = part();
      template_node step = skip(token::sign, ":") ? part() : node(kind::nothing);
      s = with(std::move(s), std::move(n), std::move(first), std::move(last), std::move(step));
    } else if (is_sign(",")) {
      template_node all = node(kind::tuple);
      all.children.push_back(std::move(first));
      while (skip(token::sign, ",") && !is_sign("]")) all.children.push_back(expression());
      s = with(std::move(s), std::move(n), std::move(all));
    } else {
      s = with(std::move(s), std::move(n), std::move(first));
    }
    expect(token::sign, "]");
    return s;
  }
  void call_arguments(template_node& n) {
    expect(token::sign, "(");
    bool keywords = false, list = false, dictionary = false, first = true;
    while (!is_sign(")")) {
      if (!first) {
        expect(token::sign, ",");
        if (is_sign(")")) break;
      }
      first = false;
      template_node::argument a;
      bool fits = !dictionary;
      if (skip(token::sign, "*")) {
        a.stars = 1;
        fits = fits && !std::exchange(list, true);
      } else if (skip(token::sign, "**")) {
        a.stars = 2;
        dictionary = true;
      } else if (now().what == token::name && ahead().what == token::sign && ahead().text == "=") {
        a.name = now().text;
        at_ += 2;
        keywords = true;
      } else {
        fits = fits && !list && !keywords;
      }
      if (!fits) fail("arguments are in a wrong order");
      n.children.push_back(expression());
      a.child = n.children.size() - 1;
      n.arguments.push_back(std::move(a));
    }
    ++at_;
  }
  template_node call(template_node callee) {
    template_node n = with(node(kind::call), std::move(callee));
    call_arguments(n);
    return n;
  }
  std::string dotted_name() {
    std::string name = expect_name();
    while (skip(token::sign, ".")) name += "." + expect_name();
    return name;
  }
  void check_known(std::string_view what, std::string_view known, const std::string& name) {
    if (!soft_ && unknown_.size() < 1000 && known.find(" " + name + " ") == std::string::npos)
      unknown_.push_back(
          at_line(now().line, now().column, "there is no " + std::string(what) + " '" + printable(name) + "'"));
  }
  template_node filters(template_node n, bool at_name) {
    while (at_name || is_sign("|")) {
      if (!at_name) ++at_;
      at_name = false;
      template_node f = node(kind::filter);
      f.text = dotted_name();
      f = with(std::move(f), std::move(n));
      if (is_sign("(")) call_arguments(f);
      check_known("filter", template_filters, f.text);
      n = std::move(f);
    }
    return n;
  }
  template_node filters_and_tests(template_node n) {
    while (true) {
      if (is_sign("|")) {
        n = filters(std::move(n), false);
      } else if (is_name("is")) {
        n = test(std::move(n));
      } else if (is_sign("(")) {
        n = call(std::move(n));
      } else {
        return n;
      }
    }
  }
  template_node test(template_node n) {
    ++at_;
    const bool negated = skip(token::name, "not");
    template_node t = node(kind::test);
    t.text = dotted_name();
    t = with(std::move(t), std::move(n));
    const auto what = now().what;
    if (is_sign("(")) {
      call_arguments(t);
    } else if ((what == token::name && !is_name("else") && !is_name("or") && !is_name("and")) || what == token::text ||
               what == token::integer || what == token::real || is_sign("[") || is_sign("{")) {
      if (is_name("is")) fail("tests cannot be chained");
      t.children.push_back(postfix(primary()));
      t.arguments.push_back({.child = 1});
    }
    check_known("test", template_tests, t.text);
    return negated ? with(node(kind::negation), std::move(t)) : t;
  }

  std::vector<template_token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, loops_ = 0, fors_ = 0;
  bool soft_ = false;
  std::vector<std::string> unknown_ = {};  ///< filters and tests, where Jinja asks for them before it runs
};

/// Finds where each name's variable is.
class template_scopes {
 public:
  using kind = template_node::kind;
  using start = template_scope::start;
  using body_t = std::vector<template_node>;

  template_scopes(template_scope& scope, template_scopes* parent) : scope_(scope), parent_(parent) {}

  void root(body_t& body) {
    for (const auto& n : body) see(n);
    finish(body);
  }

 private:
  // ---- which names a scope has, before anything runs ---------------------------------------------------------------
  std::size_t index_of(const std::string& name) {
    const auto [place, added] = index_.emplace(name, scope_.variables.size());
    if (added) scope_.variables.push_back({.name = name});
    return place->second;
  }
  std::optional<template_slot> find(const std::string& name) const {
    if (known_.contains(name)) return template_slot{0, index_.at(name)};
    if (parent_ == nullptr) return {};
    auto above = parent_->find(name);
    if (above) ++above->up;
    return above;
  }
  void define(const std::string& name, start from, template_slot outer = {}) {
    known_.insert(name);
    auto& variable = scope_.variables[index_of(name)];
    variable.from = from;
    variable.outer = outer;
  }
  void load(const std::string& name) {
    if (!find(name)) define(name, start::given);
  }
  void store(const std::string& name) {
    stored_.insert(name);
    if (known_.contains(name)) return;
    const auto above = find(name);
    define(name, above ? start::outer : start::missing, above.value_or(template_slot{}));
  }
  void parameter(const std::string& name) {
    stored_.insert(name);
    define(name, start::parameter);
  }
  void parameters(const template_node& target) {
    if (target.what == kind::name) parameter(target.text);
    for (const auto& child : target.children) parameters(child);
  }
  void assigned(const template_node& target) {
    if (target.what == kind::name) store(target.text);
    if (target.what == kind::space_attribute) load(target.text);
    for (const auto& child : target.children) assigned(child);
  }
  void see(const template_node& n) {
    switch (n.what) {
      case kind::name:
        load(n.text);
        return;
      case kind::condition:
        see_condition(n);
        return;
      case kind::loop:
        see(n.children[1]);
        return;
      case kind::set:
        see(n.children[1]);
        assigned(n.children[0]);
        return;
      case kind::set_block:
        assigned(n.children[0]);
        return;
      case kind::macro:
        store(n.text);
        return;
      case kind::call_block:
        see(n.children.back());
        return;
      case kind::generation:
        return;
      case kind::with:
        for (std::size_t i = 1; i < n.children.size(); i += 2) see(n.children[i]);
        return;
      default:
        for (const auto& child : n.children) see(child);
    }
  }
  void see_condition(const template_node& n) {
    for (const auto& c : n.children)
      if (&c == n.children.data()) see(c);
    const auto known = known_;
    const auto stored = stored_;
    auto all_known = known, all_stored = stored;
    for (std::size_t i = 0; i < n.bodies.size(); ++i) {
      known_ = known;
      stored_ = stored;
      if (i > 0 && i < n.children.size()) see(n.children[i]);
      for (const auto& inner : n.bodies[i]) see(inner);
      all_known.insert(known_.begin(), known_.end());
      all_stored.insert(stored_.begin(), stored_.end());
    }
    known_ = std::move(all_known);
    stored_ = std::move(all_stored);
    // What only some branches set is, before that, what it is outside.
    for (const std::string& name : stored_) {
      if (stored.contains(name)) continue;
      auto above = parent_ == nullptr ? std::nullopt : parent_->find(name);
      if (above) ++above->up;
      define(name, above ? start::outer : start::given, above.value_or(template_slot{}));
    }
  }

  // ---- the places of the names, and the scopes within --------------------------------------------------------------
  void finish(body_t& body) {
    for (auto& n : body) place(n);
  }
  void place_all(std::vector<template_node>& nodes) {
    for (auto& n : nodes) place(n);
  }
  template <class F>
  void inner(template_node& n, std::size_t i, bool lasts, const F& f) {
    if (n.scopes.size() <= i) n.scopes.resize(i + 1);
    template_scopes scope(n.scopes[i], this);
    f(scope);
    if (lasts)
      for (template_scopes* s = this; s != nullptr; s = s->parent_) s->scope_.lasts = true;
  }
  void place(template_node& n) {
    switch (n.what) {
      case kind::name:
      case kind::space_attribute:
        if (const auto slot = find(n.text)) n.slot = *slot;
        return;
      case kind::condition:
        place_all(n.children);
        for (auto& body : n.bodies) place_all(body);
        return;
      case kind::loop:
        place(n.children[1]);
        n.scopes.resize(3);
        inner(n, 0, n.flag, [&](template_scopes& s) {
          s.parameter("loop");
          s.parameters(n.children[0]);
          for (const auto& b : n.bodies[0]) s.see(b);
          s.place(n.children[0]);
          s.finish(n.bodies[0]);
        });
        inner(n, 1, false, [&](template_scopes& s) { s.root(n.bodies[1]); });
        if (n.children[2].what != kind::nothing) {
          inner(n, 2, false, [&](template_scopes& s) {
            s.parameters(n.children[0]);
            s.see(n.children[2]);
            n.children.push_back(n.children[0]);  // the target once more, in the scope of the test
            s.place(n.children.back());
            s.place(n.children[2]);
          });
        }
        return;
      case kind::set:
        place(n.children[1]);
        place(n.children[0]);
        return;
      case kind::set_block:
      case kind::filter_block:
        if (n.what == kind::set_block) place(n.children[0]);
        inner(n, 0, false, [&](template_scopes& s) {
          for (const auto& b : n.bodies[0]) s.see(b);
          template_node* filter = n.what == kind::filter_block ? &n.children[0]
                                  : n.children.size() > 1      ? &n.children[1]
                                                               : nullptr;
          if (filter != nullptr) s.see(*filter);
          s.finish(n.bodies[0]);
          if (filter != nullptr) s.place(*filter);
        });
        return;
      case kind::macro:
      case kind::call_block:
      case kind::generation:
        if (n.what == kind::macro) {
          if (const auto slot = find(n.text)) n.slot = *slot;
        } else if (n.what == kind::call_block) {
          place(n.children.back());
        }
        inner(n, 0, true, [&](template_scopes& s) {
          for (const auto& a : n.arguments) s.parameter(a.name);
          n.flag = mentions(n, "caller") && !has_parameter(n, "caller");
          for (const char* extra : {"caller", "varargs", "kwargs"})
            if (!has_parameter(n, extra) && mentions(n, extra)) s.parameter(extra);
          for (const auto& a : n.arguments)
            if (a.stars != 0) s.see(n.children[a.child]);
          for (const auto& b : n.bodies[0]) s.see(b);
          for (const auto& a : n.arguments)
            if (a.stars != 0) s.place(n.children[a.child]);
          s.finish(n.bodies[0]);
        });
        return;
      case kind::with:
        for (std::size_t i = 1; i < n.children.size(); i += 2) place(n.children[i]);
        inner(n, 0, false, [&](template_scopes& s) {
          for (std::size_t i = 0; i < n.children.size(); i += 2) s.parameters(n.children[i]);
          for (const auto& b : n.bodies[0]) s.see(b);
          for (std::size_t i = 0; i < n.children.size(); i += 2) s.place(n.children[i]);
          s.finish(n.bodies[0]);
        });
        return;
      default:
        place_all(n.children);
    }
  }
  static bool has_parameter(const template_node& n, std::string_view name) {
    return std::ranges::any_of(n.arguments, [&](const auto& a) { return a.name == name; });
  }
  static bool mentions(const template_node& n, std::string_view name) {
    const auto in = [&](const template_node& child) {
      return (child.what == kind::name && child.text == name) || mentions(child, name);
    };
    return std::ranges::any_of(n.children, in) ||
           std::ranges::any_of(n.bodies, [&](const auto& body) { return std::ranges::any_of(body, in); });
  }

  template_scope& scope_;
  template_scopes* parent_;
  std::map<std::string, std::size_t> index_ = {};
  std::set<std::string> known_ = {}, stored_ = {};
};

GRADUS_IMPL template_tree parse_template(std::string_view text) {
  template_tree tree;
  tree.body = template_parser(text).parse();
  template_scopes(tree.scope, nullptr).root(tree.body);
  return tree;
}

}  // namespace gradus::detail
