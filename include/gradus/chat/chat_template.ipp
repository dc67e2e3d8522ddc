#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <functional>
#include <optional>

#include "../core/printable.hpp"
#include "../tokenizer/unicode.hpp"
#include "chat_template.hpp"

namespace gradus {

namespace detail {

/// Runs a template once.
class template_run {
 public:
  using node = template_node;
  using value = template_value;
  using list = value::list;
  using kind = node::kind;
  using sequence_kind = template_sequence::kind;
  using body_t = std::vector<node>;

  template_run(const template_tree& tree, const value& variables, std::string_view date)
      : tree_(tree), variables_(variables), date_(date) {
    const std::size_t given = text_size(variables);
    steps_ = 200'000 + 200 * given;
    bytes_ = (std::size_t{2} << 20) + 64 * given;
  }

  rendered_chat run() {
    if (variables_.dictionary() == nullptr) template_refuses("the variables are no dictionary");
    try {
      frame root(tree_.scope, nullptr);
      enter(root);
      out_ = &result_.text;
      run_body(tree_.body, root);
    } catch (const chat_template_error& e) {
      throw chat_template_error(e.reason(), at_ == nullptr ? e.what() : at_line(at_->line, at_->column, e.what()));
    }
    return std::move(result_);
  }

 private:
  /// The variables of a scope while it runs.
  struct frame {
    frame(const template_scope& s, frame* p) : scope(&s), parent(p), values(s.variables.size()) {}
    const template_scope* scope;
    frame* parent;
    list values;
  };
  struct call_values {
    list places = {};
    std::vector<std::pair<std::string, value>> names = {};
  };
  struct name_space : template_object {
    std::vector<std::pair<std::string, value>> values;
  };
  struct function : template_object {
    std::string name;
    value self;
    bool is_method = false;
  };
  struct macro : template_object {
    const node* of = nullptr;
    frame* closure = nullptr;
  };
  /// A loop as its body sees it. With a condition the items are found one by one, as they are asked for.
  struct loop : template_object {
    const node* of = nullptr;
    frame* outer = nullptr;
    frame* test = nullptr;
    value source;
    list from, items;
    std::size_t read = 0, index = 0;
    int depth = 0;
    value last_seen;
    bool has_seen = false, completed = false;
  };
  enum class flow { on, leave, next };

  // ---- limits ------------------------------------------------------------------------------------------------------
  static std::size_t text_size(const value& v) {
    std::size_t size = 8;
    if (v.is_text()) size += v.text().size();
    if (v.sequence() != nullptr)
      for (const auto& item : v.sequence()->items) size += text_size(item);
    if (v.dictionary() != nullptr)
      for (const auto& [key, item] : v.dictionary()->items) size += text_size(key) + text_size(item);
    return size;
  }
  void work(std::size_t steps) {
    if (steps > steps_) template_fails(chat_template_error::kind::limit, "the template takes too many steps");
    steps_ -= steps;
  }
  /// As Python prints a value.
  std::string print(const value& v) {
    work(v.weight());
    return str(v);
  }
  void take(std::size_t bytes) {
    if (bytes > bytes_) template_fails(chat_template_error::kind::limit, "the template makes too much text");
    bytes_ -= bytes;
    work(bytes / 16);
  }
  value made(std::string text, bool marked = false) {
    take(text.size() + 32);
    return value(std::move(text), marked);
  }
  value made(list items, sequence_kind what = sequence_kind::list, std::string printed = {}) {
    take(items.size() * sizeof(value) + 64);
    return value::sequence({.what = what, .items = std::move(items), .printed = std::move(printed)});
  }
  void write(std::string_view text) {
    take(text.size());
    *out_ += text;
  }
  struct deeper {
    static constexpr int deepest = 600;
    explicit deeper(template_run& r) : run(r) {
      if (++run.depth_ > deepest)
        template_fails(chat_template_error::kind::limit,
                       "statements, expressions and calls nest deeper than " + std::to_string(deepest) + " levels");
    }
    ~deeper() { --run.depth_; }
    deeper(const deeper&) = delete;
    deeper& operator=(const deeper&) = delete;
    template_run& run;
  };
  template <class T>
  T& keep(T object) {
    take(sizeof(T) + 64);
    objects_.push_back(std::make_unique<T>(std::move(object)));
    return static_cast<T&>(*objects_.back());
  }

  // ---- variables ---------------------------------------------------------------------------------------------------
  /// Runs f with a scope's frame; one that a macro within may outlive stays.
  template <class F>
  auto in_frame(const template_scope& scope, frame& outer, const F& f) {
    if (scope.lasts) {
      take(sizeof(frame) + scope.variables.size() * sizeof(value));
      return f(frames_.emplace_back(scope, &outer));
    }
    frame inner(scope, &outer);
    return f(inner);
  }
  static value& at(const template_slot& slot, frame& f) {
    frame* in = &f;
    for (int i = 0; i < slot.up; ++i) in = in->parent;
    return in->values[slot.index];
  }
  void enter(frame& f) {
    for (std::size_t i = 0; i < f.values.size(); ++i) {
      const auto& v = f.scope->variables[i];
      switch (v.from) {
        case template_scope::start::parameter:
          break;
        case template_scope::start::given:
          f.values[i] = given(v.name);
          break;
        case template_scope::start::outer:
          f.values[i] = at(v.outer, f);
          break;
        case template_scope::start::missing:
          f.values[i] = undefined_name(v.name);
          break;
      }
    }
  }
  static value undefined_name(const std::string& name) { return value::undefined("'" + name + "' is undefined"); }
  value given(const std::string& name) {
    if (const value* v = variables_.dictionary()->find(name)) return *v;
    constexpr std::string_view functions = " range dict namespace raise_exception strftime_now cycler joiner lipsum ";
    if (functions.find(" " + name + " ") != std::string_view::npos) {
      function f;
      f.name = name;
      return value::object(&keep(std::move(f)));
    }
    if (name == "self") template_refuses("'self' is no part of a chat template");
    return undefined_name(name);
  }
  void assign(const node& target, const value& v, frame& f) {
    if (target.what == kind::tuple) {
      const list items = all_of(v);
      if (items.size() != target.children.size())
        template_raises(std::to_string(items.size()) + " values for " + std::to_string(target.children.size()) +
                        " names");
      for (std::size_t i = 0; i < items.size(); ++i) assign(target.children[i], items[i], f);
    } else if (target.what == kind::space_attribute) {
      auto* space = at(target.slot, f).object<name_space>();
      if (space == nullptr) template_raises("'" + target.text + "' is no namespace");
      set(*space, target.names[0], v);
    } else {
      at(target.slot, f) = v;
    }
  }
  void set(name_space& space, const std::string& name, const value& v) {
    if (name.starts_with('_')) template_raises("a namespace has no attribute '" + name + "'");
    work(space.values.size());
    for (auto& [key, old] : space.values) {
      if (key != name) continue;
      old = v;
      return;
    }
    take(64 + name.size());
    space.values.emplace_back(name, v);
  }

  // ---- statements --------------------------------------------------------------------------------------------------
  flow run_body(const body_t& body, frame& f) {
    for (const node& n : body)
      if (const flow next = run_statement(n, f); next != flow::on) return next;
    return flow::on;
  }
  /// What a body writes.
  template <class F>
  std::string written(const F& f) {
    std::string text;
    std::string* outer = std::exchange(out_, &text);
    try {
      f();
    } catch (...) {
      out_ = outer;
      throw;
    }
    out_ = outer;
    return text;
  }
  flow run_statement(const node& n, frame& f) {
    const deeper guard(*this);
    work(1);
    switch (n.what) {
      case kind::text:
        write(n.text);
        return flow::on;
      case kind::print:
        write(print(eval(n.children[0], f)));
        return flow::on;
      case kind::condition:
        for (std::size_t i = 0; i < n.bodies.size(); ++i)
          if (i == n.children.size() || eval(n.children[i], f).truth()) return run_body(n.bodies[i], f);
        return flow::on;
      case kind::loop:
        if (!n.flag) return run_loop(n, eval(n.children[1], f), f, 0);
        write(written([&] { run_loop(n, eval(n.children[1], f), f, 0); }));  // what may call itself writes apart
        return flow::on;
      case kind::set:
        assign(n.children[0], eval(n.children[1], f), f);
        return flow::on;
      case kind::set_block:
      case kind::filter_block:
        return in_frame(n.scopes[0], f, [&](frame& inner) {
          enter(inner);
          flow end = flow::on;
          value text = made(written([&] { end = run_body(n.bodies[0], inner); }));
          if (end != flow::on) return end;
          const bool sets = n.what == kind::set_block;
          if (!sets || n.children.size() > 1) text = filtered(n.children[sets ? 1 : 0], text, inner);
          if (sets) {
            assign(n.children[0], text, f);
          } else {
            if (!text.is_text()) template_raises("the filter of a block makes a text, not '" + text.type() + "'");
            write(text.text());
          }
          return flow::on;
        });
      case kind::macro:
        at(n.slot, f) = new_macro(n, f);
        return flow::on;
      case kind::call_block: {
        call_values arguments = values_of(n.children.back(), f);
        arguments.names.emplace_back("caller", new_macro(n, f));
        const value callee = eval(n.children.back().children[0], f);
        at_ = &n;
        write(print(call(callee, arguments)));
        return flow::on;
      }
      case kind::generation: {
        const std::string text = print(call(new_macro(n, f), {}));
        const std::size_t begin = result_.text.size();
        if (out_ == &result_.text) result_.generated.emplace_back(begin, begin + text.size());
        else result_.hides_generated = true;
        write(text);
        return flow::on;
      }
      case kind::with:
        return in_frame(n.scopes[0], f, [&](frame& inner) {
          for (std::size_t i = 0; i < n.children.size(); i += 2)
            assign(n.children[i], eval(n.children[i + 1], f), inner);
          enter(inner);
          return run_body(n.bodies[0], inner);
        });
      case kind::leave:
        return flow::leave;
      case kind::next:
        return flow::next;
      default:
        template_refuses("a statement is not known here");
    }
  }
  value new_macro(const node& n, frame& f) {
    macro m;
    m.of = &n;
    m.closure = &f;
    return value::object(&keep(std::move(m)));
  }

  // ---- loops -------------------------------------------------------------------------------------------------------
  /// Reads one item more; false if there is none.
  bool read_item(loop& l) {
    while (l.read < l.from.size()) {
      work(1);
      const value item = l.from[l.read++];
      if (const auto* s = l.source.sequence(); s != nullptr && s->what == sequence_kind::generator) ++s->at;
      if (l.test != nullptr) {
        assign(l.of->children[3], item, *l.test);
        if (!eval(l.of->children[2], *l.test).truth()) continue;
      }
      l.items.push_back(item);
      return true;
    }
    return false;
  }
  bool has_item(loop& l, std::size_t index) {
    while (l.items.size() <= index)
      if (!read_item(l)) return false;
    return true;
  }
  std::size_t length(loop& l) {
    while (read_item(l)) {}
    return l.items.size();
  }
  /// What a loop's other branch leaves is the loop around it.
  flow run_loop(const node& n, const value& source, frame& f, int depth) {
    loop& l = keep(loop());
    l.of = &n;
    l.outer = &f;
    l.source = source;
    l.from = items_of(source);
    l.depth = depth;
    const auto with_test = [&](frame* test) {
      l.test = test;
      if (test != nullptr) enter(*test);
      in_frame(n.scopes[0], f, [&](frame& inner) {
        inner.values[0] = value::object(&l);
        for (; has_item(l, l.index); ++l.index) {
          assign(n.children[0], l.items[l.index], inner);
          enter(inner);
          const flow end = run_body(n.bodies[0], inner);
          if (end == flow::leave) break;
          l.completed = l.completed || end == flow::on;
        }
        return 0;
      });
    };
    if (n.children[2].what == kind::nothing) {
      with_test(nullptr);
    } else {
      frame test(n.scopes[2], &f);
      with_test(&test);
    }
    l.test = nullptr;
    // As in Jinja the other branch is for a loop whose body did not get to its end once.
    if (l.completed || n.bodies[1].empty()) return flow::on;
    return in_frame(n.scopes[1], f, [&](frame& inner) {
      enter(inner);
      return run_body(n.bodies[1], inner);
    });
  }
  value loop_attribute(loop& l, const std::string& name) {
    const auto i = static_cast<std::int64_t>(l.index);
    if (name == "index") return i + 1;
    if (name == "index0") return i;
    if (name == "first") return i == 0;
    if (name == "last") return !has_item(l, l.index + 1);
    if (name == "length") return length(l);
    if (name == "revindex") return static_cast<std::int64_t>(length(l)) - i;
    if (name == "revindex0") return static_cast<std::int64_t>(length(l)) - i - 1;
    if (name == "depth") return l.depth + 1;
    if (name == "depth0") return l.depth;
    if (name == "previtem") return l.index > 0 ? l.items[l.index - 1] : value::undefined("there is no previous item");
    if (name == "nextitem")
      return has_item(l, l.index + 1) ? l.items[l.index + 1] : value::undefined("there is no next item");
    return value::undefined("a loop has no attribute '" + name + "'");
  }

  // ---- what is iterated --------------------------------------------------------------------------------------------
  [[noreturn]] static void not_iterable(const value& v) { template_raises("'" + v.type() + "' cannot be iterated"); }
  static bool is_iterable(const value& v) {
    return v.sequence() != nullptr || v.dictionary() != nullptr || v.is_text() || v.is_undefined() ||
           v.object<loop>() != nullptr;
  }
  /// The items of a value; a generator's are still there.
  list items_of(const value& v) {
    list items;
    if (const auto* s = v.sequence()) {
      items.assign(s->items.begin() + static_cast<std::ptrdiff_t>(s->what == sequence_kind::generator ? s->at : 0),
                   s->items.end());
    } else if (const auto* d = v.dictionary()) {
      for (const auto& [key, item] : d->items) items.push_back(key);
    } else if (v.is_text()) {
      unicode::for_each_character(v.text(), [&](char32_t, std::string_view bytes) { items.emplace_back(bytes); });
      take(items.size() * 64);
    } else if (!v.is_undefined()) {
      if (v.object<loop>() != nullptr) template_refuses("'loop' is iterated");
      not_iterable(v);
    }
    take(items.size() * sizeof(value));
    work(items.size() / 4);
    return items;
  }
  list all_of(const value& v) {
    list items = items_of(v);
    if (const auto* s = v.sequence(); s != nullptr && s->what == sequence_kind::generator) s->at = s->items.size();
    return items;
  }

  // ---- expressions -------------------------------------------------------------------------------------------------
  value eval(const node& n, frame& f) {
    const deeper guard(*this);
    work(1);
    switch (n.what) {
      case kind::constant:
        return n.value;
      case kind::name:
        return at(n.slot, f);
      case kind::attribute: {
        const value of = eval(n.children[0], f);
        at_ = &n;
        return attribute(of, n.text);
      }
      case kind::item: {
        const value of = eval(n.children[0], f), key = eval(n.children[1], f);
        at_ = &n;
        return item(of, key);
      }
      case kind::slice: {
        const value of = eval(n.children[0], f);
        std::array<std::optional<std::int64_t>, 3> part{};
        for (std::size_t i = 0; i < 3; ++i) {
          if (n.children[i + 1].what == kind::nothing) continue;
          const value v = eval(n.children[i + 1], f);
          at_ = &n;
          if (v.is_integer()) part[i] = v.integer();
          else if (!v.is_none()) template_refuses("a slice's bounds are integers or None");
        }
        at_ = &n;
        return slice(of, part);
      }
      case kind::call:
        return eval_call(n, f);
      case kind::filter:
        return filtered(n, eval(n.children[0], f), f);
      case kind::test: {
        const value of = eval(n.children[0], f);
        const call_values arguments = values_of(n, f);
        at_ = &n;
        return test(n.text, of, arguments);
      }
      case kind::sign: {
        const value v = eval(n.children[0], f);
        at_ = &n;
        if (!v.is_number()) raise_for(v, "'" + v.type() + "' has no sign");
        if (n.text == "+") return v.is_float() ? value(v.number()) : value(v.integer());
        return v.is_float() ? value(-v.number()) : arithmetic("-", value(std::int64_t{0}), v);
      }
      case kind::arithmetic: {
        const value a = eval(n.children[0], f), b = eval(n.children[1], f);
        at_ = &n;
        return arithmetic(n.text, a, b);
      }
      case kind::concat: {
        std::string text;
        for (const auto& child : n.children) {
          text += print(eval(child, f));
          work(text.size() / 16);
        }
        return made(std::move(text));
      }
      case kind::compare:
        return compared(n, f);
      case kind::all_of: {
        value left = eval(n.children[0], f);
        return left.truth() ? eval(n.children[1], f) : left;
      }
      case kind::any_of: {
        value left = eval(n.children[0], f);
        return left.truth() ? left : eval(n.children[1], f);
      }
      case kind::negation:
        return !eval(n.children[0], f).truth();
      case kind::choice:
        if (eval(n.children[0], f).truth()) return eval(n.children[1], f);
        if (n.children[2].what != kind::nothing) return eval(n.children[2], f);
        return value::undefined("an 'if' within an expression is false and has no 'else'");
      case kind::list:
      case kind::tuple: {
        list items;
        for (const auto& child : n.children) items.push_back(eval(child, f));
        return made(std::move(items), n.what == kind::list ? sequence_kind::list : sequence_kind::tuple);
      }
      case kind::dictionary: {
        value::pairs items;
        for (std::size_t i = 0; i < n.children.size(); i += 2) {
          value key = eval(n.children[i], f);
          check_key(key);
          items.emplace_back(std::move(key), eval(n.children[i + 1], f));
        }
        return dictionary(std::move(items));
      }
      default:
        template_refuses("an expression is not known here");
    }
  }
  value dictionary(value::pairs items) {
    take(items.size() * 2 * sizeof(value) + 64);
    work(items.size() * items.size() / 2);
    return value::dictionary(std::move(items));
  }
  static void check_key(const value& key) {
    const auto* s = key.sequence();
    if ((s != nullptr && s->what == sequence_kind::list) || key.dictionary() != nullptr)
      template_raises("'" + key.type() + "' cannot be a key");
    if (s != nullptr && s->what == sequence_kind::tuple) std::ranges::for_each(s->items, check_key);
  }
  /// Raises for an undefined value what it says, for another one the message.
  [[noreturn]] static void raise_for(const value& v, const std::string& message) {
    template_raises(v.is_undefined() ? v.why() : message);
  }
  value compared(const node& n, frame& f) {
    value left = eval(n.children[0], f);
    bool holds = true;
    for (std::size_t i = 0; i < n.names.size() && holds; ++i) {
      value right = eval(n.children[i + 1], f);
      at_ = &n;
      const std::string& op = n.names[i];
      work((left.is_text() ? left.text().size() / 16 : 0) + 1);
      holds = op == "=="       ? equals(left, right)
              : op == "!="     ? !equals(left, right)
              : op == "<"      ? is_less(left, right)
              : op == ">"      ? is_less(right, left)
              : op == "in"     ? contains(right, left)
              : op == "not in" ? !contains(right, left)
                               : at_most(op == "<=" ? left : right, op == "<=" ? right : left);
      left = std::move(right);
    }
    return holds;
  }
  bool equals(const value& a, const value& b) {
    work(std::min(a.weight(), b.weight()));
    return equal(a, b);
  }
  bool is_less(const value& a, const value& b) {
    work(std::min(a.weight(), b.weight()));
    return less(a, b);
  }
  /// What a search takes at worst.
  void search(std::size_t text, std::size_t what) { work(text / 16 + text / 16 * what / 16); }
  bool at_most(const value& a, const value& b) {
    if (a.is_number() && b.is_number()) return is_less(a, b) || equal(a, b);
    return !is_less(b, a);  // raises as it should
  }
  bool contains(const value& in, const value& what) {
    if (in.is_text()) {
      if (!what.is_text()) raise_for(what, "'in' a text takes a text, not '" + what.type() + "'");
      search(in.text().size(), what.text().size());
      return in.text().find(what.text()) != std::string::npos;
    }
    if (const auto* d = in.dictionary()) {
      check_key(what);
      work(d->items.size() / 4);
      return d->find(what) != nullptr;
    }
    if (const auto* s = in.sequence(); s != nullptr && s->what == sequence_kind::generator) {
      while (s->at < s->items.size())
        if (equals(s->items[s->at++], what)) return true;
      return false;
    }
    for (const auto& item : items_of(in))
      if (equals(item, what)) return true;
    return false;
  }

  static bool is_name_of(std::string_view names, const std::string& name) {
    return names.find(" " + name + " ") != std::string_view::npos;
  }
  static constexpr std::string_view text_methods =
      " capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha "
      "isascii "
      "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip "
      "maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split "
      "splitlines "
      "startswith strip swapcase title translate upper zfill ";
  static constexpr std::string_view number_names =
      " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag is_integer numerator "
      "real "
      "to_bytes ";
  static constexpr std::string_view changing =
      " append clear extend insert pop popitem remove reverse setdefault sort update ";
  bool has_method(const value& of, const std::string& name) const {
    if (of.is_text())
      return is_name_of(text_methods, name) || (of.marked() && is_name_of(" escape striptags unescape ", name));
    if (of.dictionary() != nullptr)
      return is_name_of(" clear copy fromkeys get items keys pop popitem setdefault update values ", name);
    if (const auto* s = of.sequence()) {
      if (s->what == sequence_kind::list)
        return is_name_of(" append clear copy count extend index insert pop remove reverse sort ", name);
      if (s->what == sequence_kind::generator) return is_name_of(" close send throw ", name);
      if (s->what == sequence_kind::view) return is_name_of(" isdisjoint mapping ", name);
      return is_name_of(" count index ", name) ||
             (s->what == sequence_kind::range && is_name_of(" start step stop ", name));
    }
    return of.is_number() && is_name_of(number_names, name);
  }
  /// What Python's getattr() finds; nullopt if there is nothing.
  std::optional<value> own_attribute(const value& of, const std::string& name) {
    if (name.starts_with("__")) template_refuses("'" + name + "' is no attribute for a template");
    if (of.is_undefined()) template_raises(of.why());
    if (auto* l = of.object<loop>()) {
      if (name != "cycle" && name != "changed") return loop_attribute(*l, name);
    } else if (const auto* space = of.object<name_space>()) {
      for (const auto& [key, v] : space->values)
        if (key == name) return v;
      return {};
    } else if (of.object<macro>() != nullptr || of.object<function>() != nullptr) {
      template_refuses("'" + name + "' of a function is not known here");
    } else if (const auto* s = of.sequence(); s != nullptr && s->printed == "group" && name == "grouper") {
      return s->items[0];
    } else if (s != nullptr && s->printed == "group" && name == "list") {
      return s->items[1];
    } else if (!has_method(of, name)) {
      return {};
    } else if (is_name_of(changing, name) && !of.is_text()) {
      return value::undefined("'" + name + "' would change a " + of.type());
    }
    function f;
    f.name = name;
    f.self = of;
    f.is_method = true;
    return value::object(&keep(std::move(f)));
  }
  std::optional<value> own_item(const value& of, const value& key) {
    if (of.is_undefined()) template_raises(of.why());
    if (const auto* d = of.dictionary()) {
      work(d->items.size() / 4);
      const value* found = d->find(key);
      return found == nullptr ? std::nullopt : std::optional(*found);
    }
    if (!key.is_integer()) return {};
    const auto place = [&](std::size_t size) -> std::optional<std::size_t> {
      const std::int64_t i = key.integer() < 0 ? key.integer() + static_cast<std::int64_t>(size) : key.integer();
      if (i < 0 || i >= static_cast<std::int64_t>(size)) return {};
      return static_cast<std::size_t>(i);
    };
    if (const auto* s = of.sequence();
        s != nullptr && s->what != sequence_kind::view && s->what != sequence_kind::generator) {
      const auto i = place(s->items.size());
      return i ? std::optional(s->items[*i]) : std::nullopt;
    }
    if (of.is_text()) {
      const std::u32string all = characters(of.text());
      work(all.size() / 8);
      const auto i = place(all.size());
      return i ? std::optional(value(from_characters({&all[*i], 1}), of.marked())) : std::nullopt;
    }
    return {};
  }
  value attribute(const value& of, const std::string& name) {
    if (auto found = own_attribute(of, name)) return *found;
    if (auto found = own_item(of, value(name))) return *found;
    return value::undefined("'" + of.type() + "' has no attribute '" + printable(name) + "'");
  }
  value item(const value& of, const value& key) {
    if (auto found = own_item(of, key)) return *found;
    if (key.is_text())
      if (auto found = own_attribute(of, key.text())) return *found;
    return value::undefined("'" + of.type() + "' has no element " +
                            (key.is_text() || key.is_number() ? repr(key) : key.type()));
  }
  value slice(const value& of, const std::array<std::optional<std::int64_t>, 3>& part) {
    const auto* s = of.sequence();
    if (!of.is_text() && (s == nullptr || s->what == sequence_kind::view || s->what == sequence_kind::generator))
      (of.is_undefined() ? template_raises : template_refuses)(of.is_undefined() ? of.why()
                                                                                 : "'" + of.type() + "' has no slices");
    if (s != nullptr && s->what == sequence_kind::range)
      template_refuses("a slice of a range: 'list' makes a list of it");
    const std::int64_t step = part[2].value_or(1);
    if (step == 0) template_raises("a slice's step is not 0");
    const std::u32string all = of.is_text() ? characters(of.text()) : std::u32string();
    work(all.size() / 8);
    const auto size = static_cast<std::int64_t>(of.is_text() ? all.size() : s->items.size());
    const auto bound = [&](std::optional<std::int64_t> b, std::int64_t otherwise) {
      if (!b) return otherwise;
      const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
      return *b < 0 ? std::max(*b < -size ? low : *b + size, low) : std::min(*b, high);
    };
    const std::int64_t from = bound(part[0], step > 0 ? 0 : size - 1), to = bound(part[1], step > 0 ? size : -1);
    std::u32string text;
    list items;
    const std::int64_t stride = std::clamp<std::int64_t>(step, -size - 1, size + 1);
    for (std::int64_t i = from; step > 0 ? i < to : i > to; i += stride) {
      if (of.is_text()) text += all[static_cast<std::size_t>(i)];
      else items.push_back(s->items[static_cast<std::size_t>(i)]);
    }
    return of.is_text() ? made(from_characters(text), of.marked()) : made(std::move(items), s->what);
  }

  // ---- arithmetic --------------------------------------------------------------------------------------------------
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
      switch (c) {
        case '&':
          out += "&amp;";
          break;
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '\'':
          out += "&#39;";
          break;
        case '"':
          out += "&#34;";
          break;
        default:
          out += c;
      }
    }
    return out;
  }
  static void check_size(bool too_large) {
    if (too_large) template_refuses("an integer is larger than 64 bits");
  }
  value arithmetic(const std::string& op, const value& a, const value& b) {
    if (op == "%" && a.is_text()) template_refuses("'%' of a text is not known here");
    for (const value* v : {&a, &b})
      if (v->is_undefined()) template_raises(v->why());
    const auto wrong = [&]() -> value {
      template_raises("'" + op + "' does not take '" + a.type() + "' and '" + b.type() + "'");
    };
    if (op == "+" && a.is_text() && b.is_text()) {
      const bool marked = a.marked() || b.marked();
      const auto part = [&](const value& v) { return marked && !v.marked() ? escaped(v.text()) : v.text(); };
      return made(part(a) + part(b), marked);
    }
    const auto *s = a.sequence(), *t = b.sequence();
    const auto joins = [](const template_sequence* q) {
      return q != nullptr && (q->what == sequence_kind::list || q->what == sequence_kind::tuple);
    };
    if (op == "+" && joins(s) && joins(t) && s->what == t->what) {
      list all = s->items;
      all.insert(all.end(), t->items.begin(), t->items.end());
      return made(std::move(all), s->what);
    }
    if (op == "*" && (a.is_text() || joins(s) || b.is_text() || joins(t))) {
      const bool first = a.is_text() || joins(s);
      const value& what = first ? a : b;
      const value& times = first ? b : a;
      if (!times.is_integer()) return wrong();
      const auto n = static_cast<std::size_t>(std::max<std::int64_t>(times.integer(), 0));
      const std::size_t one = what.is_text() ? what.text().size() : what.sequence()->items.size() * sizeof(value);
      if (one != 0 && n > bytes_ / one) take(bytes_ + 1);
      std::string text;
      list items;
      for (std::size_t i = 0; i < (one == 0 ? 0 : n); ++i) {
        if (what.is_text()) text += what.text();
        else items.insert(items.end(), what.sequence()->items.begin(), what.sequence()->items.end());
      }
      return what.is_text() ? made(std::move(text), what.marked()) : made(std::move(items), what.sequence()->what);
    }
    if (!a.is_number() || !b.is_number()) return wrong();
    if (op == "/") {
      if (b.number() == 0) template_raises("division by zero");
      if (!is_exact(a) || !is_exact(b)) template_refuses("a division of integers beyond 53 bits");
      return a.number() / b.number();
    }
    if (a.is_float() || b.is_float()) return real_arithmetic(op, a.number(), b.number());
    const std::int64_t x = a.integer(), y = b.integer();
    std::int64_t r = 0;
    if (op == "+") {
      check_size(__builtin_add_overflow(x, y, &r));
    } else if (op == "-") {
      check_size(__builtin_sub_overflow(x, y, &r));
    } else if (op == "*") {
      check_size(__builtin_mul_overflow(x, y, &r));
    } else if (op == "**") {
      if (y < 0) {
        if (x == 0) template_raises("zero has no negative power");
        return std::pow(static_cast<double>(x), static_cast<double>(y));
      }
      r = 1;
      for (std::int64_t i = 0; i < y; ++i) {
        if (x == 0 || x == 1 || x == -1) {
          r = x == -1 && y % 2 == 0 ? 1 : x;
          break;
        }
        check_size(__builtin_mul_overflow(r, x, &r));
      }
    } else {
      if (y == 0) template_raises("division by zero");
      check_size(y == -1 && __builtin_sub_overflow(std::int64_t{0}, x, &r));
      const std::int64_t rest = y == -1 ? 0 : x % y;
      const bool down = rest != 0 && (rest < 0) != (y < 0);
      if (op == "%") return down ? rest + y : rest;
      return (y == -1 ? -x : x / y) - (down ? 1 : 0);
    }
    return r;
  }
  static value real_arithmetic(const std::string& op, double x, double y) {
    if (op == "+") return x + y;
    if (op == "-") return x - y;
    if (op == "*") return x * y;
    if (op == "**") {
      if (x == 0 && y < 0) template_raises("zero has no negative power");
      if (x < 0 && y != std::floor(y)) template_refuses("a complex number");
      const double r = std::pow(x, y);
      if (std::isinf(r) && !std::isinf(x) && !std::isinf(y)) template_raises("a power is too large");
      return r;
    }
    if (y == 0) template_raises("division by zero");
    double rest = std::fmod(x, y);
    double whole = (x - rest) / y;
    if (rest != 0 && (y < 0) != (rest < 0)) {
      rest += y;
      whole -= 1;
    } else if (rest == 0) {
      rest = std::copysign(0.0, y);
    }
    if (op == "%") return rest;
    if (whole == 0) return std::copysign(0.0, x / y);
    const double floor = std::floor(whole);
    return whole - floor > 0.5 ? floor + 1 : floor;
  }

  // ---- calls -------------------------------------------------------------------------------------------------------
  call_values values_of(const node& n, frame& f) {
    call_values all;
    for (const auto& a : n.arguments) {
      value v = eval(n.children[a.child], f);
      if (a.stars == 1) {
        for (auto& item : all_of(v)) all.places.push_back(std::move(item));
      } else if (a.stars == 2) {
        if (v.dictionary() == nullptr) raise_for(v, "'**' takes a dictionary");
        for (const auto& [key, item] : v.dictionary()->items) {
          if (!key.is_text()) template_raises("an argument's name is a text");
          all.names.emplace_back(key.text(), item);
        }
      } else if (a.name.empty()) {
        all.places.push_back(std::move(v));
      } else {
        all.names.emplace_back(a.name, std::move(v));
      }
    }
    for (std::size_t i = 0; i < all.names.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (all.names[i].first == all.names[k].first)
          template_raises("'" + printable(all.names[i].first) + "' is given twice");
    return all;
  }
  /// The values of parameters by their places or names; nullopt for one that is not given.
  class parameters {
   public:
    parameters(const call_values& given, std::initializer_list<std::string_view> names, std::size_t needed = 0)
        : values_(names.size()) {
      if (given.places.size() > names.size()) template_raises("too many arguments");
      std::ranges::copy(given.places, values_.begin());
      for (const auto& [name, v] : given.names) {
        const auto found = std::ranges::find(names, name);
        if (found == names.end()) template_raises("there is no argument '" + printable(name) + "'");
        auto& to = values_[static_cast<std::size_t>(found - names.begin())];
        if (to) template_raises("'" + name + "' is given twice");
        to = v;
      }
      for (std::size_t i = 0; i < needed; ++i)
        if (!values_[i]) template_raises("'" + std::string(names.begin()[i]) + "' is not given");
    }
    bool has(std::size_t i) const { return values_[i].has_value(); }
    const value& operator[](std::size_t i) const { return *values_[i]; }
    bool truth(std::size_t i) const { return has(i) && values_[i]->truth(); }
    /// What Python takes for an integer: no text, and no None.
    bool flag(std::size_t i) const { return integer(i) != 0; }
    const std::string& text(std::size_t i) const {
      if (!values_[i]->is_text()) raise_for(*values_[i], "a text is expected, not '" + values_[i]->type() + "'");
      return values_[i]->text();
    }
    std::int64_t integer(std::size_t i, std::int64_t otherwise = 0) const {
      if (!has(i)) return otherwise;
      if (!values_[i]->is_integer()) raise_for(*values_[i], "an integer is expected, not '" + values_[i]->type() + "'");
      return values_[i]->integer();
    }

   private:
    std::vector<std::optional<value>> values_;
  };

  value eval_call(const node& n, frame& f) {
    const node& callee = n.children[0];
    if (callee.what == kind::attribute) {  // a method is called without being made a value first
      const value of = eval(callee.children[0], f);
      if (has_method(of, callee.text)) {
        const call_values arguments = values_of(n, f);
        at_ = &n;
        return method(of, callee.text, arguments);
      }
      at_ = &callee;
      const value found = attribute(of, callee.text);
      const call_values arguments = values_of(n, f);
      at_ = &n;
      return call(found, arguments);
    }
    const value found = eval(callee, f);
    const call_values arguments = values_of(n, f);
    at_ = &n;
    return call(found, arguments);
  }
  value call(const value& callee, const call_values& arguments) {
    if (const auto* m = callee.object<macro>()) return call_macro(*m, arguments);
    if (auto* l = callee.object<loop>()) {
      if (!l->of->flag) template_raises("the loop is not recursive");
      const parameters b(arguments, {"iterable"}, 1);
      return made(written([&] { run_loop(*l->of, b[0], *l->outer, l->depth + 1); }));
    }
    const auto* f = callee.object<function>();
    if (f == nullptr) raise_for(callee, "'" + callee.type() + "' cannot be called");
    if (!f->is_method) return global(f->name, arguments);
    if (auto* l = f->self.object<loop>()) return loop_method(*l, f->name, arguments);
    return method(f->self, f->name, arguments);
  }
  value loop_method(loop& l, const std::string& name, const call_values& arguments) {
    if (!arguments.names.empty()) template_raises("'" + name + "' takes no names");
    if (name == "cycle") {
      if (arguments.places.empty()) template_raises("no items to cycle");
      return arguments.places[l.index % arguments.places.size()];
    }
    value now = made(arguments.places, sequence_kind::tuple);
    const bool differs = !l.has_seen || !equals(l.last_seen, now);
    if (differs) l.last_seen = now;
    l.has_seen = true;
    return differs;
  }
  value call_macro(const macro& m, const call_values& given) {
    const node& n = *m.of;
    return in_frame(n.scopes[0], *m.closure, [&](frame& f) {
      std::vector<char> set(n.arguments.size(), 0);
      const auto& declared = n.arguments;
      const auto slot = [&](std::string_view name) -> value* {
        for (std::size_t i = 0; i < f.values.size(); ++i)
          if (f.scope->variables[i].name == name) return &f.values[i];
        return nullptr;
      };
      const std::size_t places = std::min(given.places.size(), declared.size());
      for (std::size_t i = 0; i < places; ++i) {
        *slot(declared[i].name) = given.places[i];
        set[i] = 1;
      }
      const auto has_parameter = [&](std::string_view name) {
        return std::ranges::any_of(declared, [&](const auto& p) { return p.name == name; });
      };
      value* varargs = has_parameter("varargs") ? nullptr : slot("varargs");
      value* kwargs = has_parameter("kwargs") ? nullptr : slot("kwargs");
      value* caller = n.flag ? slot("caller") : nullptr;
      if (given.places.size() > places && varargs == nullptr) template_raises("a macro takes fewer arguments");
      value::pairs rest;
      if (caller != nullptr) *caller = value::undefined("no caller is defined");
      for (const auto& [name, v] : given.names) {
        const auto found = std::ranges::find(declared, name, &node::argument::name);
        const auto i = static_cast<std::size_t>(found - declared.begin());
        if (found != declared.end() && set[i] == 0) {
          *slot(name) = v;
          set[i] = 1;
        } else if (name == "caller" && caller != nullptr) {
          *caller = v;
        } else if (kwargs != nullptr) {
          rest.emplace_back(value(name), v);
        } else {
          template_raises("a macro has no argument '" + printable(name) + "', or has it already");
        }
      }
      if (varargs != nullptr)
        *varargs = made(list(given.places.begin() + static_cast<std::ptrdiff_t>(places), given.places.end()),
                        sequence_kind::tuple);
      if (kwargs != nullptr) *kwargs = dictionary(std::move(rest));
      enter(f);
      for (std::size_t i = 0; i < declared.size(); ++i) {
        if (set[i] != 0) continue;
        *slot(declared[i].name) = declared[i].stars != 0
                                      ? eval(n.children[declared[i].child], f)
                                      : value::undefined("parameter '" + declared[i].name + "' was not provided");
      }
      return made(written([&] { run_body(n.bodies[0], f); }));
    });
  }
  value global(const std::string& name, const call_values& arguments) {
    if (name == "raise_exception") template_raises(print(parameters(arguments, {"message"}, 1)[0]));
    if (name == "strftime_now") return made(date_text(parameters(arguments, {"format"}, 1).text(0)));
    if (name == "namespace" || name == "dict") {
      value::pairs all;
      if (arguments.places.size() > 1) template_raises("'" + name + "' takes one value, and names");
      if (!arguments.places.empty()) {
        if (arguments.places[0].is_undefined()) template_raises(arguments.places[0].why());
        if (const auto* d = arguments.places[0].dictionary()) {
          all = d->items;
        } else {
          for (const auto& pair : all_of(arguments.places[0])) {
            list two = all_of(pair);
            if (two.size() != 2) template_raises("a pair has two values");
            check_key(two[0]);
            all.emplace_back(two[0], two[1]);
          }
        }
      }
      for (const auto& [key, v] : arguments.names) all.emplace_back(value(key), v);
      if (name == "dict") return dictionary(std::move(all));
      name_space& space = keep(name_space());
      for (const auto& [key, v] : all) {
        if (!key.is_text()) template_refuses("a namespace's attribute is a text");
        set(space, key.text(), v);
      }
      return value::object(&space);
    }
    if (name == "range") {
      if (!arguments.names.empty() || arguments.places.empty()) template_raises("'range' takes one to three integers");
      const parameters b(arguments, {"start", "stop", "step"});
      const bool one = arguments.places.size() == 1;
      const std::int64_t from = one ? 0 : b.integer(0), to = one ? b.integer(0) : b.integer(1), step = b.integer(2, 1);
      if (step == 0) template_raises("the step of 'range' is not 0");
      const double count = (static_cast<double>(to) - static_cast<double>(from)) / static_cast<double>(step);
      if (count > 100'000) template_raises("'range' is longer than 100,000");
      list all;
      for (std::int64_t i = from; step > 0 ? i < to : i > to;) {
        all.emplace_back(i);
        if (all.size() > 100'000 || __builtin_add_overflow(i, step, &i)) break;
      }
      work(all.size());
      return made(std::move(all), sequence_kind::range,
                  "range(" + std::to_string(from) + ", " + std::to_string(to) +
                      (b.has(2) && step != 1 ? ", " + std::to_string(step) : "") + ")");
    }
    template_refuses("'" + name + "' is not known here");
  }
  std::string date_text(const std::string& format) const {
    std::array<int, 6> d{};  // year, month, day, hour, minute, second
    const char *at = date_.data(), *end = date_.data() + date_.size();
    std::size_t parts = 0;
    while (at != end && parts < d.size()) {
      const auto read = std::from_chars(at, end, d[parts]);
      if (read.ec != std::errc()) break;
      ++parts;
      at = read.ptr == end ? end : read.ptr + 1;
    }
    if (parts < 3 || d[1] < 1 || d[1] > 12 || d[2] < 1 || d[2] > 31)
      template_refuses("the template writes today's date, and none is given");
    constexpr std::array<std::string_view, 12> months{"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};
    constexpr std::array<std::string_view, 7> days{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
    const bool leap = (d[0] % 4 == 0 && d[0] % 100 != 0) || d[0] % 400 == 0;
    constexpr std::array<int, 12> before{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    const auto month = static_cast<std::size_t>(d[1] - 1);
    const int of_year = before[month] + d[2] + (leap && d[1] > 2 ? 1 : 0);
    const int y = d[0] - 1;
    const auto weekday = static_cast<std::size_t>((y * 365 + y / 4 - y / 100 + y / 400 + of_year) % 7);
    const auto digits = [](int n, std::size_t width) {
      std::string text = std::to_string(n);
      return text.size() < width ? std::string(width - text.size(), '0') + text : text;
    };
    std::string out;
    for (std::size_t i = 0; i < format.size(); ++i) {
      if (format[i] != '%' || i + 1 == format.size()) {
        out += format[i];
        continue;
      }
      const bool bare = format[++i] == '-' && i + 1 < format.size();
      if (bare) ++i;
      const auto number = [&](int n, std::size_t width) { out += digits(n, bare ? 0 : width); };
      switch (format[i]) {
        case 'Y':
          number(d[0], 4);
          break;
        case 'y':
          number(d[0] % 100, 2);
          break;
        case 'm':
          number(d[1], 2);
          break;
        case 'd':
          number(d[2], 2);
          break;
        case 'H':
          number(d[3], 2);
          break;
        case 'I':
          number((d[3] + 11) % 12 + 1, 2);
          break;
        case 'M':
          number(d[4], 2);
          break;
        case 'S':
          number(d[5], 2);
          break;
        case 'j':
          number(of_year, 3);
          break;
        case 'B':
          out += months[month];
          break;
        case 'b':
        case 'h':
          out += months[month].substr(0, 3);
          break;
        case 'A':
          out += days[weekday];
          break;
        case 'a':
          out += days[weekday].substr(0, 3);
          break;
        case 'p':
          out += d[3] < 12 ? "AM" : "PM";
          break;
        case 'F':
          out += digits(d[0], 4) + "-" + digits(d[1], 2) + "-" + digits(d[2], 2);
          break;
        case 'T':
          out += digits(d[3], 2) + ":" + digits(d[4], 2) + ":" + digits(d[5], 2);
          break;
        case '%':
          out += '%';
          break;
        default:
          template_refuses("'%" + printable(format.substr(i, unicode::read_utf8(format, i).bytes)) +
                           "' of a date is not known here");
      }
    }
    return out;
  }

  // ---- methods -----------------------------------------------------------------------------------------------------
  value method(const value& of, const std::string& name, const call_values& arguments) {
    if (is_name_of(changing, name) && !of.is_text()) template_raises("'" + name + "' would change a " + of.type());
    if (of.is_text()) {
      work(of.text().size() / 16);
      if (of.marked())
        for (const auto& v : arguments.places)
          if (v.is_text() && !v.marked() && v.text().find_first_of("&<>'\"") != std::string::npos)
            template_refuses("'" + name + "' of a text that is marked safe");
      return text_method(of, name, arguments);
    }
    if (const auto* d = of.dictionary()) {
      if (name == "get") {
        const parameters b(arguments, {"key", "default"}, 1);
        if (!arguments.names.empty()) template_raises("'get' takes no names");
        check_key(b[0]);
        work(d->items.size() / 4);
        const value* found = d->find(b[0]);
        return found != nullptr ? *found : b.has(1) ? b[1] : value();
      }
      if (name == "items" || name == "keys" || name == "values") {
        const parameters none(arguments, {});
        list all;
        for (const auto& [key, v] : d->items)
          all.push_back(name == "keys" ? key : name == "values" ? v : made(list{key, v}, sequence_kind::tuple));
        return made(std::move(all), sequence_kind::view, "dict_" + name);
      }
      if (name == "copy") {
        const parameters none(arguments, {});
        return of;
      }
    }
    if (const auto* s = of.sequence()) {
      if (name == "copy") {
        const parameters none(arguments, {});
        return of;
      }
      if (name == "index" && arguments.places.size() > 1) template_refuses("'index' within bounds is not known here");
      if (name == "count" || name == "index") {
        const parameters b(arguments, {"value"}, 1);
        std::int64_t count = 0;
        for (std::size_t i = 0; i < s->items.size(); ++i) {
          if (!equals(s->items[i], b[0])) continue;
          if (name == "index") return i;
          ++count;
        }
        if (name == "index") template_raises("the value is not in the list");
        return count;
      }
    }
    template_refuses("'" + name + "' of a " + of.type() + " is not known here");
  }

  /// A text without the characters at its ends that are spaces, or one of `which`.
  static std::string stripped(const std::string& text, const std::optional<std::string>& which, bool left, bool right) {
    const std::u32string all = characters(text), chosen = which ? characters(*which) : std::u32string();
    const auto goes = [&](char32_t c) { return which ? chosen.find(c) != chosen.npos : is_python_space(c); };
    std::size_t begin = 0, end = all.size();
    while (left && begin < end && goes(all[begin])) ++begin;
    while (right && end > begin && goes(all[end - 1])) --end;
    return from_characters({all.data() + begin, end - begin});
  }
  static std::string capitalized(const std::string& text) {
    const std::u32string all = characters(text);
    if (all.empty()) return {};
    if ((all[0] >= 0x1C4 && all[0] <= 0x1CC) || (all[0] >= 0x1F1 && all[0] <= 0x1F3))
      template_refuses("the title case of a character is not known here");
    if (all[0] > 127 && in_upper_case(from_characters({all.data(), 1})) != from_characters({all.data(), 1}) &&
        characters(in_upper_case(from_characters({all.data(), 1}))).size() != 1)
      template_refuses("the title case of a character is not known here");
    const std::u32string lower = characters(in_lower_case(text));
    if (lower.size() != all.size()) template_refuses("the lower case of a character is not known here");
    return in_upper_case(from_characters({all.data(), 1})) + from_characters({lower.data() + 1, lower.size() - 1});
  }
  std::vector<std::string> split(const std::string& text, const std::optional<std::string>& by, std::int64_t most,
                                 bool right) {
    std::vector<std::string> parts;
    if (by) {
      if (by->empty()) template_raises("an empty separator");
      std::size_t begin = 0, end = text.size();
      while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
        const std::size_t at =
            right ? (end < by->size() ? std::string::npos : text.rfind(*by, end - by->size())) : text.find(*by, begin);
        if (at == std::string::npos) break;
        if (right) {
          parts.push_back(text.substr(at + by->size(), end - at - by->size()));
          end = at;
        } else {
          parts.push_back(text.substr(begin, at - begin));
          begin = at + by->size();
        }
      }
      parts.push_back(text.substr(begin, end - begin));
    } else {
      std::u32string all = characters(text);
      if (right) std::ranges::reverse(all);
      std::size_t at = 0;
      while (true) {
        while (at < all.size() && is_python_space(all[at])) ++at;
        if (at == all.size()) break;
        std::size_t end = at;
        if (most >= 0 && static_cast<std::int64_t>(parts.size()) == most) {
          end = all.size();
        } else {
          while (end < all.size() && !is_python_space(all[end])) ++end;
        }
        std::u32string part = all.substr(at, end - at);
        if (right) std::ranges::reverse(part);
        parts.push_back(from_characters(part));
        at = end;
        if (most >= 0 && static_cast<std::int64_t>(parts.size()) > most) break;
      }
    }
    if (right) std::ranges::reverse(parts);
    return parts;
  }
  std::string replaced(const std::string& text, const std::string& old, const std::string& by, std::int64_t most) {
    std::string out;
    std::size_t at = 0;
    std::int64_t count = 0;
    const auto grow = [&] {
      if (out.size() > bytes_) take(out.size());
    };
    if (old.empty()) {
      const std::u32string all = characters(text);
      for (std::size_t i = 0; i <= all.size(); ++i) {
        if (most < 0 || count++ < most) out += by;
        if (i < all.size()) out += from_characters({all.data() + i, 1});
        grow();
      }
      return out;
    }
    while (most < 0 || count++ < most) {
      const std::size_t found = text.find(old, at);
      if (found == std::string::npos) break;
      out.append(text, at, found - at);
      out += by;
      at = found + old.size();
      grow();
    }
    return out.append(text, at);
  }
  static std::optional<std::string> optional_text(const parameters& b, std::size_t i) {
    if (!b.has(i) || b[i].is_none()) return {};
    return b.text(i);
  }
  value texts(const std::vector<std::string>& parts, bool marked, sequence_kind what = sequence_kind::list) {
    list all;
    for (const auto& part : parts) all.push_back(made(part, marked));
    return made(std::move(all), what);
  }
  value text_method(const value& of, const std::string& name, const call_values& arguments) {
    const std::string& text = of.text();
    const bool m = of.marked();
    if (name == "format" || name == "format_map") template_refuses("'" + name + "' of a text is not known here");
    if (!arguments.names.empty() && name != "split" && name != "rsplit" && name != "splitlines")
      template_raises("'" + name + "' takes no names");
    if (name == "strip" || name == "lstrip" || name == "rstrip")
      return made(
          stripped(text, optional_text(parameters(arguments, {"chars"}), 0), name != "rstrip", name != "lstrip"), m);
    if (name == "split" || name == "rsplit") {
      const parameters b(arguments, {"sep", "maxsplit"});
      return texts(split(text, optional_text(b, 0), b.integer(1, -1), name == "rsplit"), m);
    }
    if (name == "startswith" || name == "endswith") {
      const parameters b(arguments, {"prefix", "start", "end"}, 1);
      if (b.has(1)) template_refuses("'" + name + "' within bounds is not known here");
      const auto fits = [&](const value& v) {
        if (!v.is_text()) raise_for(v, "'" + name + "' takes texts");
        return name == "startswith" ? text.starts_with(v.text()) : text.ends_with(v.text());
      };
      if (const auto* s = b[0].sequence(); s != nullptr && s->what == sequence_kind::tuple)
        return std::ranges::any_of(s->items, fits);
      return fits(b[0]);
    }
    if (name == "replace") {
      const parameters b(arguments, {"old", "new", "count"}, 2);
      return made(replaced(text, b.text(0), b.text(1), b.integer(2, -1)), m);
    }
    if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count") {
      const parameters b(arguments, {"sub", "start", "end"}, 1);
      search(text.size(), b.text(0).size());
      const std::u32string all = characters(text), what = characters(b.text(0));
      const auto size = static_cast<std::int64_t>(all.size());
      const auto limit = [&](std::size_t i, std::int64_t otherwise) {
        std::int64_t v = b.has(i) && b[i].is_none() ? otherwise : b.integer(i, otherwise);
        if (v < 0) v = std::max<std::int64_t>(v + size, 0);
        return v;
      };
      const std::int64_t from = limit(1, 0), to = std::min(limit(2, size), size);
      std::size_t found = all.npos;
      std::int64_t count = 0;
      if (from <= to) {
        const std::u32string part = all.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from));
        if (name == "count") {
          if (what.empty()) return static_cast<std::int64_t>(part.size()) + 1;
          for (std::size_t at = part.find(what); at != part.npos; at = part.find(what, at + what.size())) ++count;
          return count;
        }
        found = name.starts_with('r') ? part.rfind(what) : part.find(what);
        if (found != part.npos) found += static_cast<std::size_t>(from);
      }
      if (name == "count") return count;
      if (found != all.npos) return found;
      if (name.ends_with("index")) template_raises("the text is not found");
      return -1;
    }
    if (name == "join") {
      const parameters b(arguments, {"iterable"}, 1);
      std::string out;
      bool first = true;
      for (const auto& v : all_of(b[0])) {
        if (!v.is_text()) raise_for_join(v);
        if (!std::exchange(first, false)) out += text;
        out += v.text();
        if (out.size() > bytes_) take(out.size());
      }
      return made(std::move(out), m);
    }
    if (name == "splitlines") {
      const bool keeps = parameters(arguments, {"keepends"}).flag(0);
      const std::u32string all = characters(text);
      std::vector<std::string> lines;
      std::size_t begin = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const char32_t c = all[i];
        const bool ends = (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
        if (!ends) continue;
        const std::size_t end = c == 0xD && i + 1 < all.size() && all[i + 1] == 0xA ? i + 1 : i;
        lines.push_back(from_characters(all.substr(begin, (keeps ? end + 1 : i) - begin)));
        begin = end + 1;
        i = end;
      }
      if (begin < all.size()) lines.push_back(from_characters(all.substr(begin)));
      return texts(lines, m);
    }
    if (name == "removeprefix" || name == "removesuffix") {
      const parameters b(arguments, {"affix"}, 1);
      const std::string& affix = b.text(0);
      const bool prefix = name == "removeprefix";
      const bool fits = prefix ? text.starts_with(affix) : text.ends_with(affix);
      return made(!fits ? text : prefix ? text.substr(affix.size()) : text.substr(0, text.size() - affix.size()), m);
    }
    if (name == "partition" || name == "rpartition") {
      const parameters b(arguments, {"sep"}, 1);
      if (b.text(0).empty()) template_raises("an empty separator");
      const std::size_t at = name == "partition" ? text.find(b.text(0)) : text.rfind(b.text(0));
      if (at == std::string::npos)
        return texts(
            name == "partition" ? std::vector<std::string>{text, "", ""} : std::vector<std::string>{"", "", text}, m,
            sequence_kind::tuple);
      return texts({text.substr(0, at), b.text(0), text.substr(at + b.text(0).size())}, m, sequence_kind::tuple);
    }
    if (name == "zfill") {
      const parameters b(arguments, {"width"}, 1);
      const std::size_t size = characters(text).size();
      const auto width = static_cast<std::size_t>(std::max<std::int64_t>(b.integer(0), 0));
      if (width <= size) return of;
      take(width);
      const bool sign = text.starts_with('-') || text.starts_with('+');
      return made(text.substr(0, sign ? 1 : 0) + std::string(width - size, '0') + text.substr(sign ? 1 : 0), m);
    }
    if (name == "ljust" || name == "rjust" || name == "center") {
      const parameters b(arguments, {"width", "fillchar"}, 1);
      return made(padded(text, b.integer(0), b.has(1) ? b.text(1) : " ", name), m);
    }
    if (!is_name_of(" upper lower capitalize title ", name) && !name.starts_with("is"))
      template_refuses("'" + name + "' of a text is not known here");
    const parameters none(arguments, {});
    if (name == "upper") return made(in_upper_case(text), m);
    if (name == "lower") return made(in_lower_case(text), m);
    if (name == "capitalize") return made(capitalized(text), m);
    if (name == "title") {
      std::u32string word;
      std::string out;
      for (const char32_t c : characters(text)) {
        if (unicode::classify(c) == unicode::character_class::letter) {
          word += c;
        } else {
          if (c > 127 && !is_python_space(c)) template_refuses("'title' of this text is not known here");
          out += capitalized(from_characters(word)) + from_characters({&c, 1});
          word.clear();
        }
      }
      return made(out + capitalized(from_characters(word)), m);
    }
    if (name == "isascii") return std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; });
    return is_text_of(text, name);
  }
  [[noreturn]] static void raise_for_join(const value& v) {
    template_raises("'join' of a text takes texts, not '" + v.type() + "'");
  }
  std::string padded(const std::string& text, std::int64_t width, const std::string& fill, const std::string& how) {
    const auto size = static_cast<std::int64_t>(characters(text).size());
    if (characters(fill).size() != 1) template_raises("what fills is one character");
    if (width <= size) return text;
    const std::int64_t rest = width - size;
    take(static_cast<std::size_t>(rest) * fill.size());
    const std::int64_t left = how == "rjust" ? rest : how == "ljust" ? 0 : rest / 2 + (rest & width & 1);
    std::string out;
    for (std::int64_t i = 0; i < left; ++i) out += fill;
    out += text;
    for (std::int64_t i = left; i < rest; ++i) out += fill;
    return out;
  }
  static bool is_text_of(const std::string& text, const std::string& name) {
    const std::u32string all = characters(text);
    if (std::ranges::any_of(all, [](char32_t c) { return c > 127; }))
      if (name != "isspace" && name != "isalpha") template_refuses("'" + name + "' beyond ASCII is not known here");
    const auto upper = [](char32_t c) { return c >= U'A' && c <= U'Z'; };
    const auto lower = [](char32_t c) { return c >= U'a' && c <= U'z'; };
    const auto digit = [](char32_t c) { return c >= U'0' && c <= U'9'; };
    const auto letter = [](char32_t c) { return unicode::classify(c) == unicode::character_class::letter; };
    const auto every = [&](const auto& f) { return !all.empty() && std::ranges::all_of(all, f); };
    if (name == "isspace") return every(is_python_space);
    if (name == "isalpha") return every(letter);
    if (name == "isdigit" || name == "isdecimal" || name == "isnumeric") return every(digit);
    if (name == "isalnum") return every([&](char32_t c) { return letter(c) || digit(c); });
    if (name == "islower") return std::ranges::any_of(all, lower) && std::ranges::none_of(all, upper);
    if (name == "isupper") return std::ranges::any_of(all, upper) && std::ranges::none_of(all, lower);
    template_refuses("'" + name + "' of a text is not known here");
  }

  // ---- tests -------------------------------------------------------------------------------------------------------
  value test(const std::string& name, const value& of, const call_values& arguments) {
    if (name == "defined" || name == "undefined") {
      const parameters none(arguments, {});
      return of.is_undefined() == (name == "undefined");
    }
    const auto* s = of.sequence();
    const bool mapping = of.dictionary() != nullptr;
    const auto other = [&] { return parameters(arguments, {"other"}, 1)[0]; };
    if (name == "==" || name == "eq" || name == "equalto") return equals(of, other());
    if (name == "!=" || name == "ne") return !equals(of, other());
    if (name == "<" || name == "lt" || name == "lessthan") return is_less(of, other());
    if (name == ">" || name == "gt" || name == "greaterthan") return is_less(other(), of);
    if (name == "<=" || name == "le") return at_most(of, other());
    if (name == ">=" || name == "ge") return at_most(other(), of);
    if (name == "in") return contains(other(), of);
    if (name == "divisibleby") {
      const value rest = arithmetic("%", of, other());
      return equal(rest, value(0));
    }
    if (name == "sameas") {
      const value b = other();
      if (of.is_none() || of.is_bool() || b.is_none() || b.is_bool()) return of.type() == b.type() && equal(of, b);
      template_refuses("'sameas' of these values is not known here");
    }
    const parameters nothing(arguments, {});
    if (name == "none") return of.is_none();
    if (name == "boolean") return of.is_bool();
    if (name == "true") return of.is_bool() && of.truth();
    if (name == "false") return of.is_bool() && !of.truth();
    if (name == "string") return of.is_text();
    if (name == "mapping") return mapping;
    if (name == "number") return of.is_number();
    if (name == "integer") return of.is_integer() && !of.is_bool();
    if (name == "float") return of.is_float();
    if (name == "iterable") return is_iterable(of);
    if (name == "sequence")
      return of.is_text() || mapping || of.is_undefined() ||
             (s != nullptr && s->what != sequence_kind::view && s->what != sequence_kind::generator);
    if (name == "odd" || name == "even") {
      const value rest = arithmetic("%", of, value(2));
      return equal(rest, value(name == "odd" ? 1 : 0));
    }
    if (name == "lower" || name == "upper") {
      if (!of.is_text()) return is_text_of(print(of), "is" + name);
      return is_text_of(of.text(), "is" + name);
    }
    if (name == "callable")
      return of.is_undefined() || of.object<macro>() != nullptr || of.object<function>() != nullptr ||
             of.object<loop>() != nullptr;
    if (name == "escaped") return of.marked();
    if (name == "filter" || name == "test") {
      if (!of.is_text()) template_refuses("'" + name + "' takes a text here");
      return is_name_of(name == "filter" ? template_filters : template_tests, of.text());
    }
    template_raises("there is no test '" + printable(name) + "'");
  }

  // ---- filters -----------------------------------------------------------------------------------------------------
  value filtered(const node& n, const value& of, frame& f) {
    // In a block the innermost filter has no input of its own.
    const value input = in_block(n) && n.children[0].what == kind::filter ? filtered(n.children[0], of, f) : of;
    const call_values arguments = values_of(n, f);
    at_ = &n;
    return filter(n.text, input, arguments);
  }
  /// Whether a chain of filters starts from a block's text.
  static bool in_block(const node& n) {
    const node* first = &n;
    while (first->what == kind::filter) first = &first->children[0];
    return first->what == kind::nothing;
  }

  /// The values of an attribute's path, "a.0.b".
  value path_of(value of, const std::vector<value>& path, const value* otherwise = nullptr) {
    for (const auto& part : path) {
      of = item(of, part);
      if (otherwise != nullptr && of.is_undefined()) of = *otherwise;
    }
    return of;
  }
  static std::vector<value> parts_of(const value& attribute) {
    if (attribute.is_none()) return {};
    if (!attribute.is_text()) return {attribute};
    std::vector<value> parts;
    std::size_t begin = 0;
    for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
      end = attribute.text().find('.', begin);
      const std::string part = attribute.text().substr(begin, end == std::string::npos ? end : end - begin);
      std::int64_t i = 0;
      const bool digits =
          !part.empty() && part.find_first_not_of("0123456789") == std::string::npos && part.size() < 10;
      if (digits) std::from_chars(part.data(), part.data() + part.size(), i);
      parts.push_back(digits ? value(i) : value(part));
      if (end == std::string::npos) break;
    }
    return parts;
  }
  static value without_case(const value& v) { return v.is_text() ? value(in_lower_case(v.text())) : v; }
  /// What sorts, groups and compares an item: its attribute, in lower case.
  value key_of(const value& v, const std::vector<value>& path, bool case_sensitive) {
    const value found = path_of(v, path);
    return case_sensitive ? found : without_case(found);
  }
  void sort_by_keys(std::vector<std::pair<value, value>>& all, bool reverse) {
    work(all.size() * 8);
    if (reverse) std::ranges::reverse(all);  // equal ones keep their order
    std::ranges::stable_sort(all, [&](const auto& a, const auto& b) {
      work(1);
      return is_less(a.first, b.first);
    });
    if (reverse) std::ranges::reverse(all);
  }
  value filter(const std::string& name, const value& of, const call_values& given) {
    work(1);
    if (is_name_of(" capitalize e escape items list lower safe string title upper ", name))
      const parameters none(given, {});
    const auto text_of = [&]() -> std::string {
      work(of.is_text() ? of.text().size() / 16 : 1);
      return print(of);
    };
    if (name == "trim") {
      const parameters b(given, {"chars"});
      return made(stripped(text_of(), optional_text(b, 0), true, true), of.marked());
    }
    if (name == "default" || name == "d") {
      const parameters b(given, {"default_value", "boolean"});
      const bool replaced_by = of.is_undefined() || (b.truth(1) && !of.truth());
      return !replaced_by ? of : b.has(0) ? b[0] : value("");
    }
    if (name == "tojson") return made(json_of(of, given));
    if (name == "length" || name == "count") {
      const parameters none(given, {});
      if (of.is_text()) return characters(of.text()).size();
      if (const auto* s = of.sequence(); s != nullptr && s->what != sequence_kind::generator) return s->items.size();
      if (const auto* d = of.dictionary()) return d->items.size();
      if (auto* l = of.object<loop>()) return length(*l);
      if (of.is_undefined()) return 0;
      template_raises("'" + of.type() + "' has no length");
    }
    if (name == "join") {
      const parameters b(given, {"d", "attribute"});
      const std::string between = b.has(0) ? print(b[0]) : "";
      const auto path = b.has(1) ? parts_of(b[1]) : std::vector<value>();
      std::string out;
      bool first = true;
      for (const auto& v : all_of(of)) {
        if (!std::exchange(first, false)) out += between;
        out += print(path_of(v, path));
        if (out.size() > bytes_) take(out.size());
      }
      return made(std::move(out));
    }
    if (name == "first" || name == "last") {
      const parameters none(given, {});
      const auto* s = of.sequence();
      if (name == "last" && s != nullptr && s->what == sequence_kind::generator)
        template_raises("a generator has no last item");
      const list all = items_of(of);
      if (name == "first" && s != nullptr && s->what == sequence_kind::generator && s->at < s->items.size()) ++s->at;
      if (all.empty()) return value::undefined("there is no " + name + " item");
      return name == "first" ? all.front() : all.back();
    }
    if (name == "list") return made(all_of(of));
    if (name == "items") {
      if (of.is_undefined()) return made(list(), sequence_kind::generator);
      if (of.dictionary() == nullptr) template_raises("'items' takes a dictionary");
      list all;
      for (const auto& [key, v] : of.dictionary()->items) all.push_back(made(list{key, v}, sequence_kind::tuple));
      return made(std::move(all), sequence_kind::generator);
    }
    if (name == "upper" || name == "lower") {
      const std::string text = text_of();
      return made(name == "upper" ? in_upper_case(text) : in_lower_case(text), of.marked());
    }
    if (name == "capitalize") return made(capitalized(text_of()), of.marked());
    if (name == "title") {
      std::u32string word;
      std::string out;
      const auto end = [&] {
        out += capitalized(from_characters(word));
        word.clear();
      };
      for (const char32_t c : characters(text_of())) {
        if (is_python_space(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos) {
          end();
          out += from_characters({&c, 1});
        } else {
          word += c;
        }
      }
      end();
      return made(std::move(out));
    }
    if (name == "replace") {
      const parameters b(given, {"old", "new", "count"}, 2);
      return made(replaced(text_of(), print(b[0]), print(b[1]), b.has(2) && !b[2].is_none() ? b.integer(2) : -1));
    }
    if (name == "string") return of.is_text() ? of : made(print(of));
    if (name == "safe") return made(text_of(), true);
    if (name == "escape" || name == "e") return of.marked() ? of : made(escaped(text_of()), true);
    if (name == "map") return mapped(of, given);
    if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
      return selected(name, of, given);
    if (name == "sort") {
      const parameters b(given, {"reverse", "case_sensitive", "attribute"});
      std::vector<std::vector<value>> paths;
      if (b.has(2) && b[2].is_text()) {
        for (const auto& part : split(b[2].text(), ",", -1, false)) paths.push_back(parts_of(value(part)));
      } else {
        paths.push_back(b.has(2) ? parts_of(b[2]) : std::vector<value>());
      }
      std::vector<std::pair<value, value>> all;
      for (const auto& v : all_of(of)) {
        list keys;
        for (const auto& path : paths) keys.push_back(key_of(v, path, b.truth(1)));
        all.emplace_back(made(std::move(keys)), v);
      }
      sort_by_keys(all, b.flag(0));
      list sorted;
      for (auto& [key, v] : all) sorted.push_back(std::move(v));
      return made(std::move(sorted));
    }
    if (name == "dictsort") {
      const parameters b(given, {"case_sensitive", "by", "reverse"});
      if (of.dictionary() == nullptr) raise_for(of, "'dictsort' takes a dictionary");
      const std::string by = b.has(1) ? print(b[1]) : "key";
      if (by != "key" && by != "value") template_raises("'dictsort' sorts by \"key\" or \"value\"");
      std::vector<std::pair<value, value>> all;
      for (const auto& [key, v] : of.dictionary()->items) {
        const value& k = by == "key" ? key : v;
        all.emplace_back(b.truth(0) ? k : without_case(k), made(list{key, v}, sequence_kind::tuple));
      }
      sort_by_keys(all, b.flag(2));
      list sorted;
      for (auto& [key, v] : all) sorted.push_back(std::move(v));
      return made(std::move(sorted));
    }
    if (name == "unique") {
      const parameters b(given, {"case_sensitive", "attribute"});
      const auto path = b.has(1) ? parts_of(b[1]) : std::vector<value>();
      list seen, all;
      for (const auto& v : all_of(of)) {
        const value key = key_of(v, path, b.truth(0));
        check_key(key);
        if (std::ranges::any_of(seen, [&](const value& k) { return equals(k, key); })) continue;
        seen.push_back(key);
        all.push_back(v);
      }
      return made(std::move(all), sequence_kind::generator);
    }
    if (name == "min" || name == "max") {
      const parameters b(given, {"case_sensitive", "attribute"});
      const auto path = b.has(1) ? parts_of(b[1]) : std::vector<value>();
      const list all = all_of(of);
      if (all.empty()) return value::undefined("there is no item to compare");
      value best = all[0], best_key = key_of(all[0], path, b.truth(0));
      for (std::size_t i = 1; i < all.size(); ++i) {
        const value key = key_of(all[i], path, b.truth(0));
        if (name == "min" ? !is_less(key, best_key) : !is_less(best_key, key)) continue;
        best = all[i];
        best_key = key;
      }
      return best;
    }
    if (name == "sum") {
      const parameters b(given, {"attribute", "start"});
      const auto path = b.has(0) ? parts_of(b[0]) : std::vector<value>();
      value total = b.has(1) ? b[1] : value(0);
      if (total.is_text()) template_raises("'sum' does not add texts");
      for (const auto& v : all_of(of)) total = arithmetic("+", total, path_of(v, path));
      return total;
    }
    if (name == "reverse") {
      const parameters none(given, {});
      if (of.is_text()) {
        std::u32string all = characters(of.text());
        std::ranges::reverse(all);
        return made(from_characters(all));
      }
      list all = all_of(of);
      std::ranges::reverse(all);
      return made(std::move(all), sequence_kind::generator);
    }
    if (name == "int" || name == "float") return number_of(name, of, given);
    if (name == "abs") {
      const parameters none(given, {});
      if (!of.is_number()) raise_for(of, "'abs' takes a number");
      if (of.is_float()) return std::abs(of.number());
      return of.integer() < 0 ? arithmetic("-", value(0), of) : value(of.integer());
    }
    if (name == "round") return rounded(of, given);
    if (name == "indent") return indented(of, given);
    if (name == "wordcount") {
      const parameters none(given, {});
      std::int64_t count = 0;
      bool within = false;
      for (const char32_t c : characters(text_of())) {
        const bool word = c == U'_' || unicode::classify(c) == unicode::character_class::letter ||
                          unicode::is(c, unicode::property::numeric);
        if (word && !within) ++count;
        within = word;
      }
      return count;
    }
    if (name == "center") {
      const parameters b(given, {"width"});
      return made(padded(text_of(), b.integer(0, 80), " ", "center"));
    }
    if (name == "batch") {
      const parameters b(given, {"linecount", "fill_with"}, 1);
      const std::int64_t size = b.integer(0);
      list rows, row;
      for (const auto& v : all_of(of)) {
        if (static_cast<std::int64_t>(row.size()) == size) rows.push_back(made(std::exchange(row, {})));
        row.push_back(v);
      }
      if (!row.empty()) {
        if (b.has(1) && !b[1].is_none()) {
          take(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)) * sizeof(value));
          while (static_cast<std::int64_t>(row.size()) < size) row.push_back(b[1]);
        }
        rows.push_back(made(std::move(row)));
      }
      return made(std::move(rows), sequence_kind::generator);
    }
    if (name == "groupby") {
      const parameters b(given, {"attribute", "default", "case_sensitive"}, 1);
      const auto path = parts_of(b[0]);
      std::vector<std::pair<value, value>> all;
      for (const auto& v : all_of(of)) {
        const value found = path_of(v, path, b.has(1) ? &b[1] : nullptr);
        all.emplace_back(b.truth(2) ? found : without_case(found), v);
      }
      sort_by_keys(all, false);
      list groups;
      for (std::size_t i = 0; i < all.size();) {
        list group;
        const std::size_t first = i;
        for (; i < all.size() && equals(all[i].first, all[first].first); ++i) group.push_back(all[i].second);
        const value key = path_of(group[0], path, b.has(1) ? &b[1] : nullptr);
        groups.push_back(made(list{key, made(std::move(group))}, sequence_kind::tuple, "group"));
      }
      return made(std::move(groups));
    }
    if (is_name_of(template_filters, name)) template_refuses("the filter '" + name + "' is not known here");
    template_raises("there is no filter '" + printable(name) + "'");
  }
  std::string blanks(std::int64_t n) {
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(n, 0));
    take(size);
    return std::string(size, ' ');
  }
  std::string json_of(const value& of, const call_values& given) {
    const parameters b(given, {"ensure_ascii", "indent", "separators", "sort_keys"});
    json_style style;
    style.ascii = b.truth(0);
    style.sorted = b.truth(3);
    if (b.has(1) && !b[1].is_none()) {
      style.indented = true;
      style.between = ",";
      if (b[1].is_text()) style.indent = b[1].text();
      else style.indent = blanks(b.integer(1));
    }
    if (b.has(2) && !b[2].is_none()) {
      const list two = items_of(b[2]);
      if (two.size() != 2 || !two[0].is_text() || !two[1].is_text()) template_raises("the separators are two texts");
      style.between = two[0].text();
      style.after_key = two[1].text();
    }
    const std::size_t values = of.weight();
    work(values);
    take(values * (style.between.size() + style.after_key.size() +
                   style.indent.size() * (static_cast<std::size_t>(of.depth()) + 1)));
    return to_json(of, style);
  }
  value mapped(const value& of, const call_values& given) {
    if (!of.truth()) return made(list(), sequence_kind::generator);  // of nothing nothing is asked
    list all;
    if (given.places.empty() && !given.names.empty()) {
      const parameters b(given, {"", "attribute", "default"});
      if (!b.has(1)) template_raises("'map' takes a filter's name or 'attribute'");
      const auto path = parts_of(b[1]);
      for (const auto& v : all_of(of)) all.push_back(path_of(v, path, b.has(2) ? &b[2] : nullptr));
    } else {
      if (given.places.empty()) template_raises("'map' takes a filter's name");
      if (!given.places[0].is_text()) raise_for(given.places[0], "a filter's name is a text");
      call_values rest = given;
      rest.places.erase(rest.places.begin());
      for (const auto& v : all_of(of)) all.push_back(filter(given.places[0].text(), v, rest));
    }
    return made(std::move(all), sequence_kind::generator);
  }
  value selected(const std::string& name, const value& of, const call_values& given) {
    if (!of.truth()) return made(list(), sequence_kind::generator);
    const bool by_attribute = name.ends_with("attr"), wanted = name.starts_with("select");
    call_values rest = given;
    std::vector<value> path;
    if (by_attribute) {
      if (rest.places.empty()) template_raises("'" + name + "' takes an attribute");
      path = parts_of(rest.places[0]);
      rest.places.erase(rest.places.begin());
    }
    std::optional<value> by;
    if (rest.places.empty() && !rest.names.empty()) template_raises("'" + name + "' takes a test's name first");
    if (!rest.places.empty()) {
      by = rest.places[0];
      rest.places.erase(rest.places.begin());
      if (!by->is_text()) raise_for(*by, "a test's name is a text");
    }
    list all;
    for (const auto& v : all_of(of)) {
      const value found = path_of(v, path);
      if ((by ? test(by->text(), found, rest).truth() : found.truth()) == wanted) all.push_back(v);
    }
    return made(std::move(all), sequence_kind::generator);
  }
  value number_of(const std::string& name, const value& of, const call_values& given) {
    const bool whole = name == "int";
    const parameters b = whole ? parameters(given, {"default", "base"}) : parameters(given, {"default"});
    const value otherwise = b.has(0) ? b[0] : whole ? value(0) : value(0.0);
    if (of.is_undefined()) template_raises(of.why());
    if (of.is_number()) {
      if (!whole) return of.number();
      if (!of.is_float()) return of.integer();
      if (!std::isfinite(of.number())) {
        if (std::isnan(of.number())) return otherwise;
        template_raises("infinity is no integer");
      }
      check_size(std::abs(of.number()) >= 9.2e18);
      return static_cast<std::int64_t>(of.number());
    }
    if (!of.is_text()) return otherwise;
    std::string text = stripped(of.text(), {}, true, true);
    if (whole && b.has(1) && !(b[1].is_integer() && b.integer(1) == 10))
      template_refuses("'int' of another base is not known here");
    const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
      return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || (c | 32) == 'e';
    });
    if (!plain) {
      const std::string lower = in_lower_case(text);
      if (text.find('_') != std::string::npos || lower.find("inf") != std::string::npos ||
          lower.find("nan") != std::string::npos || std::ranges::any_of(text, [](char c) { return (c & 0x80) != 0; }))
        template_refuses("'" + name + "' of " + printable(of.text()) + " is not known here");
      return otherwise;
    }
    if (text.starts_with('+')) text.erase(0, 1);
    if (text.starts_with('+') || text.starts_with("+-")) return otherwise;
    const char* end = text.data() + text.size();
    if (whole) {
      std::int64_t i = 0;
      const auto read = std::from_chars(text.data(), end, i);
      if (read.ptr == end) {
        check_size(read.ec == std::errc::result_out_of_range);
        if (read.ec == std::errc()) return i;
      }
    }
    double d = 0;
    const auto read = std::from_chars(text.data(), end, d);
    if (read.ec == std::errc::result_out_of_range) template_refuses("a number is too large");
    if (read.ec != std::errc() || read.ptr != end) return otherwise;
    if (!whole) return d;
    check_size(std::abs(d) >= 9.2e18);
    return static_cast<std::int64_t>(d);
  }
  value rounded(const value& of, const call_values& given) {
    const parameters b(given, {"precision", "method"});
    if (b.has(0) && b[0].is_none()) template_refuses("'round' to None is not known here");
    const std::int64_t digits = b.integer(0, 0);
    const std::string how = b.has(1) ? print(b[1]) : "common";
    if (how != "common" && how != "ceil" && how != "floor") template_raises("'round' is common, ceil or floor");
    if (!of.is_number()) raise_for(of, "'round' takes a number");
    if (how == "common") {
      if (of.is_integer()) {
        if (digits < 0) template_refuses("'round' of an integer to tens is not known here");
        return of.integer();
      }
      if (digits > 15 || digits < 0 || std::abs(of.number()) > 1e15)
        template_refuses("'round' to these digits is not known here");
      // The digits of the exact value, with ties to even, as Python rounds.
      std::array<char, 64> buffer{};
      const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), of.number(),
                                     std::chars_format::fixed, static_cast<int>(digits))
                           .ptr;
      double d = 0;
      std::from_chars(buffer.data(), end, d);
      return d;
    }
    const double scale = std::pow(10.0, static_cast<double>(digits));
    const double whole = how == "ceil" ? std::ceil(of.number() * scale) : std::floor(of.number() * scale);
    return whole == 0 ? 0.0 : whole / scale;
  }
  value indented(const value& of, const call_values& given) {
    const parameters b(given, {"width", "first", "blank"});
    if (!of.is_text()) raise_for(of, "'indent' takes a text");
    const std::string by = b.has(0) && b[0].is_text() ? b[0].text() : blanks(b.integer(0, 4));
    std::string text = of.text() + "\n";
    std::string out;
    const call_values none;
    const value split_lines = text_method(value(text), "splitlines", none);
    const auto& lines = split_lines.sequence()->items;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string& line = lines[i].text();
      if (i > 0) out += "\n";
      if (i == 0 ? b.truth(1) : (b.truth(2) || !line.empty())) out += by;
      out += line;
      if (out.size() > bytes_) take(out.size());
    }
    return made(std::move(out), of.marked());
  }

  const template_tree& tree_;
  const value& variables_;
  std::string_view date_;
  rendered_chat result_;
  std::string* out_ = nullptr;
  const node* at_ = nullptr;
  std::size_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
  std::vector<std::unique_ptr<template_object>> objects_;
  std::deque<frame> frames_;
};

}  // namespace detail

GRADUS_IMPL chat_template::chat_template(std::string_view text)
    : tree_(std::make_shared<const detail::template_tree>(detail::parse_template(text))) {}

GRADUS_IMPL rendered_chat chat_template::render(const template_value& variables, std::string_view date) const {
  return detail::template_run(*tree_, variables, date).run();
}

}  // namespace gradus
