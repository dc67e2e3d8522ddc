#pragma once
// A conversation with a model, in the format that it was trained to write chats in (gpt_sample --chat).

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <istream>
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
  gr::example_encoder encoder(&words, format);
  gr::token_sampler sampler(o.how.rule);
  std::vector<gr::chat_message> messages;
  if (!o.system.empty()) messages.push_back({gr::chat_role::system, o.system});
  const std::size_t first = messages.size();
  std::vector<std::string> stops;  // those that are no token
  std::vector<std::int32_t> ends;
  if (const auto end = words.end_token()) ends.push_back(*end);
  for (const std::string& stop : format.stops)
    if (const auto id = words.id_of(stop)) ends.push_back(*id);
    else stops.push_back(stop);
  std::uint32_t drawn = 0;
  for (std::string line; (!o.shows_prompt || print("> ")) && std::getline(in, line);) {
    if (line.empty()) continue;
    messages.push_back({gr::chat_role::user, line});
    std::vector<std::int32_t> tokens = encoder.open(messages);
    while (tokens.size() + context / 8 > context && messages.size() > first + 2) {
      messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(first),
                     messages.begin() + static_cast<std::ptrdiff_t>(first) + 2);
      tokens = encoder.open(messages);
    }
    const gr::interrupts<InterruptedAt> stopped;
    window.begin(tokens);
    gr::stop_text_finder found(stops);
    std::string answer;
    bool open = true;
    const auto give = [&](const std::string& text) {
      answer += text;
      open = print(text);
    };
    for (int i = 0; i < o.count && open && !found.found() && !stopped.noticed(); ++i) {
      const auto next = static_cast<std::int32_t>(
          sampler.choose(window.logits().first(words.vocabulary()), window.tokens(), o.how.draw(drawn++)));
      if (std::ranges::find(ends, next) != ends.end()) break;
      give(found.add(words.bytes_of(next)));
      window.add({next});
    }
    if (open) give(found.finish());
    if (!open || !print("\n")) return;
    messages.push_back({gr::chat_role::assistant, answer});
  }
  if (o.shows_prompt) print("\n");
}

}  // namespace gpt
