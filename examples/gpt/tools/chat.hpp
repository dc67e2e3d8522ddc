#pragma once
// Answers of a model, in the format that it was trained to write chats in, and conversations (gpt_sample --chat).

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <istream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradus/data/token_examples.hpp>
#include <gradus/generate/sampling.hpp>
#include <gradus/generate/stop_text.hpp>
#include <gradus/generate/token_window.hpp>
#include <gradus/run/interrupts.hpp>

namespace gpt {

namespace gr = gradus;

/// Writes what a model answers, in the format that it was trained to write chats in.
template <class Window>
class chat_writer {
 public:
  /// All must outlive it.
  chat_writer(Window& window, const gr::tokenizer& words, const gr::chat_format& format, const gr::generation& how)
      : window_(window),
        words_(words),
        how_(how),
        encoder_(&words, format),
        sampler_(how.rule),
        ends_(words.end_tokens()) {
    for (const std::string& stop : format.stops)
      if (const auto id = words.id_of(stop)) ends_.push_back(*id);
      else stops_.push_back(stop);
  }

  /// The tokens of the messages, with the assistant's turn opened.
  std::vector<std::int32_t> open(std::span<const gr::chat_message> messages) { return encoder_.open(messages); }
  /// Gives the answer to print(text) as it comes, until that returns false: at most `count` tokens. Returns all of it.
  std::string answer(std::span<const std::int32_t> tokens, int count,
                     const std::function<bool(std::string_view)>& print) {
    window_.begin(tokens);
    gr::stop_text_finder found(stops_);
    std::string answer;
    bool open = true;
    const auto give = [&](const std::string& text) {
      answer += text;
      open = print(text);
    };
    for (int i = 0; i < count && open && !found.found(); ++i) {
      const auto next = static_cast<std::int32_t>(
          sampler_.choose(window_.logits().first(words_.vocabulary()), window_.tokens(), how_.draw(drawn_++)));
      if (std::ranges::find(ends_, next) != ends_.end()) break;
      give(found.add(words_.bytes_of(next)));
      window_.add({next});
    }
    if (const std::string held = found.finish(); !held.empty()) give(held);
    return answer;
  }

 private:
  Window& window_;
  const gr::tokenizer& words_;
  gr::generation how_;
  gr::example_encoder encoder_;
  gr::token_sampler sampler_;
  std::vector<std::string> stops_;  // those that are no token
  std::vector<std::int32_t> ends_;
  std::uint32_t drawn_ = 0;
};

/// How a conversation goes.
struct chat_options {
  std::string system;  ///< a message that begins it; empty: none
  int count = 0;       ///< most tokens of an answer
  gr::generation how;
  bool shows_prompt = true;  ///< "> ", where a person writes
};

/// Holds a conversation: a line of `in` is a message, the answer is given to print(text) as it comes. Ctrl-C, which
/// sets `InterruptedAt`, ends an answer; at the end of the input, or if print() returns false, the conversation ends.
/// If it becomes longer than the model's context, its oldest messages are left out.
template <std::atomic<long long>& InterruptedAt, class Window>
void chat(Window& window, std::size_t context, const gr::tokenizer& words, const gr::chat_format& format,
          const chat_options& o, std::istream& in, const std::function<bool(std::string_view)>& print) {
  chat_writer writer(window, words, format, o.how);
  std::vector<gr::chat_message> messages;
  if (!o.system.empty()) messages.push_back({gr::chat_role::system, o.system});
  const std::size_t first = messages.size();
  for (std::string line; (!o.shows_prompt || print("> ")) && std::getline(in, line);) {
    if (line.empty()) continue;
    messages.push_back({gr::chat_role::user, line});
    std::vector<std::int32_t> tokens = writer.open(messages);
    while (tokens.size() + context / 8 > context && messages.size() > first + 2) {
      messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(first),
                     messages.begin() + static_cast<std::ptrdiff_t>(first) + 2);
      tokens = writer.open(messages);
    }
    const gr::interrupts<InterruptedAt> stopped;
    bool open = true;
    const std::string answer = writer.answer(tokens, o.count, [&](std::string_view text) {
      open = open && print(text);
      return open && !stopped.noticed();
    });
    if (!open || !print("\n")) return;
    messages.push_back({gr::chat_role::assistant, answer});
  }
  if (o.shows_prompt) print("\n");
}

}  // namespace gpt
