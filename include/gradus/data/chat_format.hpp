#pragma once
// Chats as texts: how a language model's chat format writes the messages. Formats are data; no template is executed.
// Not part of gradus.hpp: files that name a format need nlohmann/json.

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../tokenizer/text_settings.hpp"

namespace gradus {

/// Who wrote a message.
enum class chat_role { system, user, assistant };
inline constexpr std::array chat_role_names{"system", "user", "assistant"};

/// A message of a chat.
struct chat_message {
  chat_role role = chat_role::user;
  std::string content;
  bool is_target = true;  ///< of the assistant: whether training predicts it

  friend bool operator==(const chat_message&, const chat_message&) = default;
};

/// A piece of a rendered chat.
struct chat_segment {
  std::string text;
  bool is_target = false;  ///< the assistant writes it: a content, and the mark that ends the turn
  bool marks = true;       ///< the format's own text, whose special tokens are tokens; false: a content, which has none

  friend bool operator==(const chat_segment&, const chat_segment&) = default;
};

/// How a chat is written.
struct chat_format {
  /// What stands before a message's content and after it.
  struct turn {
    std::string begin, end;
    std::string rest = {};  ///< follows the end, and nobody predicts it: a line's end
  };
  enum class system_turn {
    own,      ///< the system's message is a turn
    in_user,  ///< it stands before the first user message's content, in the same turn
    refused,
  };
  enum class trimmed { nothing, contents, turns };  ///< `turns`: what is in a turn, the system's message included

  std::string name;
  std::string before = {};  ///< of the whole
  turn system = {}, user = {}, assistant = {};
  std::string lead = {};   ///< what the model writes before its content: Llama 2's space
  std::string after = {};  ///< of the whole, if no answer is to follow
  system_turn system_as = system_turn::own;
  bool alternates = false;  ///< user and assistant take turns, the user first
  trimmed trims = trimmed::nothing;
  std::string default_system = {};  ///< the system's message of a chat without one; empty: none
  std::vector<std::string> stops;   ///< texts of which each ends an answer

  /// The chat's pieces in their order. Throws gradus::error for no messages, or for a role where the format has none.
  std::vector<chat_segment> render(std::span<const chat_message> messages) const;
  /// The pieces up to the opened turn of the assistant, for an answer. Throws gradus::error also if the last message is
  /// an answer.
  std::vector<chat_segment> open(std::span<const chat_message> messages) const;
};

/// The text of a rendered chat.
std::string text_of(std::span<const chat_segment> segments);

/// The names of the formats: "chatml, llama2, …".
std::string chat_format_names();

/// A format by its name. Throws gradus::error, with all names, for another name.
chat_format chat_format_named(std::string_view name);

/// The format of a `chat_template`, recognised by what it spells; its bos_token and eos_token, if they are given,
/// replace the format's own. A default system message is taken from the template: the first text, not an expression,
/// that it spells between what begins and what ends a system's turn.
///
/// Throws gradus::error, with the names to choose from, for a template that no format writes as it does, and for a
/// default system message with quotes or braces.
chat_format recognised_chat_format(std::string_view template_text, std::string_view bos = {},
                                   std::string_view eos = {});

/// The format of the chat template called default that settings have, with the tokens that they name. Nullopt if there
/// is none. Throws gradus::error as recognised_chat_format().
std::optional<chat_format> chat_format_of(const text_settings& of);

/// The format of chat_template.jinja beside a tokenizer_config.json, or else of its `chat_template`: a text, or a list
/// of which "default" is taken. Nullopt if there is neither. Throws gradus::error as recognised_chat_format(), and for
/// a file that is no such JSON.
std::optional<chat_format> read_chat_format(const std::filesystem::path& tokenizer_config);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "chat_format.ipp"
#endif
