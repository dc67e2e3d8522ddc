#pragma once
#include <string>
#include <utility>

#include <gradus/data/chat_format.hpp>

#include "../flags/flags.hpp"

namespace gpt {

/// --chat-format: the name of a format; `about` is for --help.
inline flag chat_format_flag(std::string& member, std::string about) {
  return flag{"chat-format",
              [&member](std::string& word) {
                try {
                  gr::chat_format_named(word);
                } catch (const gr::error& e) { throw gr::bad_flag(std::string("--chat-format: ") + e.what()); }
                member = word;
              },
              [&member] { return member; }, std::move(about)}
      .without_default();
}

}  // namespace gpt
