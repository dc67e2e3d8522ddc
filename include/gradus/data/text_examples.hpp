#pragma once
// Files of examples to train a language model on: texts, prompts with completions, chats, preferences. Not part of
// gradus.hpp: they need nlohmann/json.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "chat_format.hpp"

namespace gradus {

/// A text, all of which is learned.
struct plain_example {
  std::string text;
  friend bool operator==(const plain_example&, const plain_example&) = default;
};
/// A text, and how it goes on, which is learned.
struct completion_example {
  std::string prompt, completion;
  friend bool operator==(const completion_example&, const completion_example&) = default;
};
/// A chat, of which the messages of the assistant that are targets are learned.
struct chat_example {
  std::vector<chat_message> messages;
  friend bool operator==(const chat_example&, const chat_example&) = default;
};
/// Two ways to go on after a prompt: two completions, or two chats.
struct preference_example {
  std::variant<completion_example, chat_example> chosen, rejected;
  friend bool operator==(const preference_example&, const preference_example&) = default;
};

/// An example, and where it is from.
struct text_example {
  std::variant<plain_example, completion_example, chat_example, preference_example> content;
  std::string where;                      ///< "examples.jsonl, line 7", or the file that it is
  std::vector<std::string> ignored = {};  ///< its keys that say something, and are not read: "id", "messages.name"
};

/// The keys of a file's examples that are not read.
class ignored_keys {
 public:
  void add(const text_example& example);
  /// `ignored in 40 examples: "id", "messages.name"`, with the first eight keys; empty if all are read.
  std::string text() const;

 private:
  std::size_t examples_ = 0;
  std::vector<std::string> names_;  // one more than are named at most
};

/// Calls `sink` for each example of a file or a folder, in order:
///
///     .jsonl .ndjson    one JSON object a line, empty lines aside
///     .csv              a header, then rows; quotes as in RFC 4180
///     .tsv              the same with tabs; quotes are ordinary characters
///     .txt .md          one text
///     a folder          its .txt and .md files, also in folders within, in the order of their names
///
/// The keys of an object, or the columns of a table, are `text`; or `prompt` and `completion`; or `messages`, a list of
/// {"role", "content"}, where a "weight" of 0 or a "train" of false keeps an assistant's message from being learned; or
/// `prompt`, `chosen` and `rejected`. Prompts and what follows them are all texts, or all lists of messages.
/// Keys without which an example means something else are refused, such as "tools"; `ignored` lists other keys.
///
/// Throws gradus::error with the file and the line, counted from 1, of what is none of that, is no UTF-8, or has more
/// than 16 MiB; and for files without examples, in other formats, or that change while they are read, with what to do.
void read_text_examples(const std::filesystem::path& path, const std::function<void(text_example&&)>& sink);

/// All examples of a file or a folder.
std::vector<text_example> read_text_examples(const std::filesystem::path& path);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "text_examples.ipp"
#endif
