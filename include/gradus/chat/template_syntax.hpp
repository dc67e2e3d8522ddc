#pragma once
// A chat template's text as a tree: the language of Jinja 3.1, as transformers sets it up (`trim_blocks`,
// `lstrip_blocks`, loop controls, `generation`).

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "template_value.hpp"

namespace gradus::detail {

/// Where a variable is: in the scope that is `up` scopes above the one that reads it.
struct template_slot {
  int up = 0;
  std::size_t index = 0;
};

/// The variables of a loop's body, a macro, a block. As in Jinja all are known before it runs: one that is set anywhere
/// in a scope is its own there, with the value from outside until then.
struct template_scope {
  enum class start { parameter, given, outer, missing };  ///< `given`: to the rendering
  struct variable {
    std::string name;
    start from = start::missing;
    template_slot outer = {};
  };
  std::vector<variable> variables = {};
  bool lasts = false;  ///< a macro or a block within it may be called after its end
};

struct template_node {
  enum class kind {
    // Statements.
    text,
    print,
    condition,
    loop,
    set,
    set_block,
    macro,
    call_block,
    filter_block,
    with,
    generation,
    leave,
    next,
    // Expressions.
    constant,
    name,
    attribute,
    item,
    slice,
    call,
    filter,
    test,
    sign,
    arithmetic,
    concat,
    compare,
    all_of,
    any_of,
    negation,
    choice,
    list,
    tuple,
    dictionary,
    space_attribute,
    nothing,
  };
  struct argument {
    std::string name = {};  ///< empty: by its place
    int stars = 0;          ///< `*` and `**`
    std::size_t child = 0;
  };

  kind what = kind::nothing;
  int line = 0, column = 0;
  int depth = 0;          ///< operations below it
  std::string text = {};  ///< a text, a name, an operator
  template_value value = {};
  std::vector<template_node> children = {};
  std::vector<argument> arguments = {};  ///< of a call, a filter, a test; of a macro its parameters
  std::vector<std::vector<template_node>> bodies = {};
  std::vector<std::string> names = {};      ///< operators of a comparison
  std::vector<template_scope> scopes = {};  ///< of each body; of a loop: body, else, test
  template_slot slot = {};
  bool flag = false;  ///< of a loop: recursive; of a macro: it reads `caller`
};

struct template_tree {
  std::vector<template_node> body = {};
  template_scope scope = {};
};

/// Jinja's filters and tests: a name outside these is an error of the template.
inline constexpr std::string_view template_filters =
    " abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape format "
    "groupby indent int items join last length list lower map max min pprint random reject rejectattr replace reverse "
    "round safe select selectattr slice sort string striptags sum title tojson trim truncate unique upper urlencode "
    "urlize wordcount wordwrap xmlattr ";
inline constexpr std::string_view template_tests =
    " != < <= == > >= boolean callable defined divisibleby eq equalto escaped even false filter float ge greaterthan "
    "gt "
    "in integer iterable le lessthan lower lt mapping ne none number odd sameas sequence string test true undefined "
    "upper ";

/// Parses a template. Throws chat_template_error, with line and column.
template_tree parse_template(std::string_view text);

/// The message of an error at a place of a template.
std::string at_line(int line, int column, const std::string& message);

}  // namespace gradus::detail

#ifndef GRADUS_COMPILED
#include "template_syntax.ipp"
#endif
