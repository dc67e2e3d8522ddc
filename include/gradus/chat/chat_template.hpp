#pragma once
// A model's own chat template: how it writes a conversation. Not part of gradus.hpp: values are read from JSON.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template_syntax.hpp"
#include "template_value.hpp"

namespace gradus {

/// A conversation as a chat template writes it.
struct rendered_chat {
  std::string text;
  /// Which bytes of it `{% generation %}` holds: [begin, end), in their order.
  std::vector<std::pair<std::size_t, std::size_t>> generated = {};
  bool hides_generated = false;  ///< one more stands in a macro or a block that is set: its place is not known
};

/// A chat template, the language of Jinja as transformers runs it: it reads the variables that it is given, and nothing
/// else. No statement of it reaches a file, the machine or the program.
///
/// A rendering takes at most 200,000 steps and 2 MiB for what it makes, and more with what it is given: 200 steps and
/// 64 bytes a byte of text in the variables. Values nest at most 64 levels, what runs 600.
class chat_template {
 public:
  /// Throws chat_template_error, with line and column, for text that cannot be parsed, or with over 100 levels of
  /// nested tags and brackets.
  explicit chat_template(std::string_view text);

  /// The text for variables, a dictionary: `messages`, `add_generation_prompt`, `bos_token` and what else it reads.
  /// `date`, such as "2024-07-26" or "2024-07-26 12:34:56", is today for strftime_now(). Throws chat_template_error,
  /// with line and column, if the template raises, for what gradus does not have, and at a limit.
  rendered_chat render(const template_value& variables, std::string_view date = {}) const;

 private:
  std::shared_ptr<const detail::template_tree> tree_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "chat_template.ipp"
#endif
