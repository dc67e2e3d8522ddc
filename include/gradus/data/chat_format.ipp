#pragma once
#include <algorithm>
#include <utility>

#include "../core/printable.hpp"
#include "../io/json.hpp"
#include "../tokenizer/text_settings_json.hpp"
#include "../tokenizer/unicode.hpp"
#include "chat_format.hpp"

namespace gradus {

namespace detail {

/// A format, and how its templates are told from others.
struct known_chat_format {
  chat_format format;
  std::string bos = {}, eos = {};         // as the format's texts spell them
  std::vector<std::string> all_of = {};   // what a template of it holds
  std::vector<std::string> none_of = {};  // and what it does not
};

/// The first that fits a template is the one, so what is special comes before what is general.
GRADUS_IMPL std::vector<known_chat_format> known_chat_formats() {
  using system_turn = chat_format::system_turn;
  using trimmed = chat_format::trimmed;
  return {{.format = {.name = "chatml",
                      .system = {"<|im_start|>system\n", "<|im_end|>", "\n"},
                      .user = {"<|im_start|>user\n", "<|im_end|>", "\n"},
                      .assistant = {"<|im_start|>assistant\n", "<|im_end|>", "\n"},
                      .stops = {"<|im_end|>"}},
           .all_of = {"<|im_start|>", "<|im_end|>"},
           .none_of = {"|trim", "| trim", "strip()"}},
          {.format = {.name = "llama3",
                      .before = "<|begin_of_text|>",
                      .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
                      .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
                      .assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
                      .trims = trimmed::contents,
                      .stops = {"<|eot_id|>", "<|end_of_text|>"}},
           .bos = "<|begin_of_text|>",
           .all_of = {"<|start_header_id|>", "<|eot_id|>", "trim"}},
          {.format = {.name = "llama2",
                      .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
                      .user = {"<s>[INST] ", " [/INST]"},
                      .assistant = {"", " </s>"},
                      .lead = " ",
                      .system_as = system_turn::in_user,
                      .alternates = true,
                      .trims = trimmed::turns,
                      .stops = {"</s>"}},
           .bos = "<s>",
           .eos = "</s>",
           .all_of = {"[INST]", "<<SYS>>", "strip()"}},
          {.format = {.name = "mistral",
                      .before = "<s>",
                      .user = {"[INST] ", " [/INST]"},
                      .assistant = {"", "</s>"},
                      .system_as = system_turn::refused,
                      .alternates = true,
                      .stops = {"</s>"}},
           .bos = "<s>",
           .eos = "</s>",
           .all_of = {"'[INST] '", "' [/INST]'"},
           .none_of = {"system_message", "[AVAILABLE_TOOLS]", "eos_token + ' '", "trim", "strip()", "<<SYS>>"}},
          {.format = {.name = "phi3",
                      .system = {"<|system|>\n", "<|end|>", "\n"},
                      .user = {"<|user|>\n", "<|end|>", "\n"},
                      .assistant = {"<|assistant|>\n", "<|end|>", "\n"},
                      .after = "<|endoftext|>",
                      .stops = {"<|end|>", "<|endoftext|>"}},
           .eos = "<|endoftext|>",
           .all_of = {"<|user|>", "<|system|>", "<|end|>", "eos_token"}},
          {.format = {.name = "zephyr",
                      .system = {"<|system|>\n", "</s>", "\n"},
                      .user = {"<|user|>\n", "</s>", "\n"},
                      .assistant = {"<|assistant|>\n", "</s>", "\n"},
                      .stops = {"</s>"}},
           .eos = "</s>",
           .all_of = {"<|user|>", "<|system|>", "<|assistant|>", "eos_token"},
           .none_of = {"<|end|>"}},
          {.format = {.name = "gemma3",
                      .before = "<bos>",
                      .system = {"", "\n\n"},
                      .user = {"<start_of_turn>user\n", "<end_of_turn>", "\n"},
                      .assistant = {"<start_of_turn>model\n", "<end_of_turn>", "\n"},
                      .system_as = system_turn::in_user,
                      .alternates = true,
                      .trims = trimmed::contents,
                      .stops = {"<end_of_turn>", "<eos>"}},
           .bos = "<bos>",
           .all_of = {"<start_of_turn>", "first_user_prefix"}},
          {.format = {.name = "gemma",
                      .before = "<bos>",
                      .user = {"<start_of_turn>user\n", "<end_of_turn>", "\n"},
                      .assistant = {"<start_of_turn>model\n", "<end_of_turn>", "\n"},
                      .system_as = system_turn::refused,
                      .alternates = true,
                      .trims = trimmed::contents,
                      .stops = {"<end_of_turn>", "<eos>"}},
           .bos = "<bos>",
           .all_of = {"<start_of_turn>", "System role not supported"}},
          {.format = {.name = "alpaca",
                      .system = {"", "", "\n\n"},
                      .user = {"### Instruction:\n", "\n\n"},
                      .assistant = {"### Response:\n", "</s>", "\n\n"},
                      .stops = {"</s>", "### Instruction:"}},
           .eos = "</s>"}};  // by its name alone: templates of it differ
}

/// Without white space around the whole, as Python strips it.
GRADUS_IMPL void trim_segments(std::span<chat_segment> segments) {
  const std::string whole = text_of(segments);
  std::size_t begin = whole.size(), end = 0, at = 0;  // of what stays
  unicode::for_each_character(whole, [&](char32_t c, std::string_view bytes) {
    if (!unicode::is_space(c) && (c < 0x1C || c > 0x1F)) {
      begin = std::min(begin, at);
      end = at + bytes.size();
    }
    at += bytes.size();
  });
  at = 0;
  for (chat_segment& s : segments) {
    const std::size_t stop = at + s.text.size(), first = std::clamp(begin, at, stop);
    s.text = s.text.substr(first - at, std::max(first, std::clamp(end, at, stop)) - first);
    at = stop;
  }
}

/// Writes one chat.
class chat_writer {
 public:
  explicit chat_writer(const chat_format& format) : format_(format) {}

  std::vector<chat_segment> write(std::span<const chat_message> messages, bool opened) {
    if (messages.empty()) fail("a chat without messages");
    add(format_.before);
    const bool has_system = messages.front().role == chat_role::system;
    if (!has_system && !format_.default_system.empty()) add_system(format_.default_system);
    for (index_ = 0; index_ < messages.size(); ++index_) add_message(messages[index_], has_system ? 1 : 0);
    if (system_ != nullptr) fail("a system's message, without a user's message to stand in");
    if (opened && messages.back().role == chat_role::assistant)
      fail("messages[" + std::to_string(index_ - 1) + "] is the assistant's: there is nothing to answer");
    add(opened ? format_.assistant.begin : format_.after);
    std::erase_if(segments_, [](const chat_segment& s) { return s.text.empty(); });
    return std::move(segments_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw error("chat format " + format_.name + ": " + what); }
  [[noreturn]] void fail_here(const std::string& what) const {
    fail("messages[" + std::to_string(index_) + "]: " + what);
  }
  void add(std::string_view text, bool is_target = false, bool marks = true) {
    segments_.push_back({std::string(text), is_target, marks});
  }
  void add_system(const std::string& content) {
    if (format_.system_as == chat_format::system_turn::refused) fail_here("the format has no system's message");
    if (format_.system_as == chat_format::system_turn::in_user) system_ = &content;
    else add_turn(format_.system, content, false);
  }
  void add_message(const chat_message& m, std::size_t first) {
    if (m.role == chat_role::system) {
      if (index_ > 0 && format_.system_as == chat_format::system_turn::in_user)
        fail_here("a system's message must be the first");
      return add_system(m.content);
    }
    const bool user = m.role == chat_role::user;
    if (format_.alternates && user != ((index_ - first) % 2 == 0))
      fail_here(std::string("role ") + (user ? "user" : "assistant") +
                ", but user and assistant must alternate, the user first");
    add_turn(user ? format_.user : format_.assistant, m.content, !user && m.is_target, user ? "" : format_.lead);
  }
  void add_turn(const chat_format::turn& turn, const std::string& content, bool is_target, std::string_view lead = {}) {
    add(turn.begin);
    add(lead, is_target);
    const std::size_t begin = segments_.size();
    const bool folds = system_ != nullptr && &turn == &format_.user;
    if (folds) {
      add(format_.system.begin);
      add(*std::exchange(system_, nullptr), false, false);
      add(format_.system.end);
    }
    add(content, is_target, false);
    if (format_.trims != chat_format::trimmed::nothing) {
      const auto whole = std::span(segments_).subspan(begin);
      trim_segments(format_.trims == chat_format::trimmed::turns ? whole : whole.last(1));
    }
    add(turn.end, is_target);
    add(turn.rest);
  }

  const chat_format& format_;
  std::vector<chat_segment> segments_;
  const std::string* system_ = nullptr;  // to stand in the next user message
  std::size_t index_ = 0;
};

GRADUS_IMPL void replace_all(std::string& text, const std::string& from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// The default system message that a template spells, or nothing.
GRADUS_IMPL std::string default_system_of(std::string_view text, const chat_format::turn& turn) {
  const std::string_view begin = std::string_view(turn.begin).substr(0, turn.begin.find('\n'));
  for (std::size_t at = 0; (at = text.find(begin, at)) != std::string_view::npos;) {
    at += begin.size();
    const std::size_t end = text.find(turn.end, at);
    if (end == std::string_view::npos) break;
    std::string message(text.substr(at, end - at));
    replace_all(message, "\\n", "\n");  // as a template may spell a line's end
    message.erase(0, message.starts_with(turn.begin.substr(begin.size())) ? turn.begin.size() - begin.size() : 0);
    constexpr std::string_view code = "'\"{}\\";
    if (message.empty() || code.find(message.front()) != std::string_view::npos) continue;  // no default: an expression
    if (message.find_first_of(code) != std::string::npos)
      throw error("chat_template: a default system message with quotes or braces, which is not read; name a format " +
                  std::string("by --chat-format: ") + chat_format_names());
    return message;
  }
  return {};
}

}  // namespace detail

GRADUS_IMPL std::vector<chat_segment> chat_format::render(std::span<const chat_message> messages) const {
  return detail::chat_writer(*this).write(messages, false);
}

GRADUS_IMPL std::vector<chat_segment> chat_format::open(std::span<const chat_message> messages) const {
  return detail::chat_writer(*this).write(messages, true);
}

GRADUS_IMPL std::string text_of(std::span<const chat_segment> segments) {
  std::string text;
  for (const chat_segment& s : segments) text += s.text;
  return text;
}

GRADUS_IMPL std::string chat_format_names() {
  std::string names;
  for (const auto& known : detail::known_chat_formats()) names.append(names.empty() ? "" : ", ") += known.format.name;
  return names;
}

GRADUS_IMPL chat_format chat_format_named(std::string_view name) {
  for (auto& known : detail::known_chat_formats())
    if (known.format.name == name) return std::move(known.format);
  throw error("no chat format is called '" + printable(name.substr(0, 40)) + "'; there are " + chat_format_names());
}

GRADUS_IMPL chat_format recognised_chat_format(std::string_view template_text, std::string_view bos,
                                               std::string_view eos) {
  const auto holds = [&](std::string_view part) { return template_text.find(part) != std::string_view::npos; };
  // What templates write besides the messages, and no format here does.
  for (const char* other : {"reasoning_content", "<think>", "strftime_now", "Cutting Knowledge Date"})
    if (holds(other))
      throw error(std::string("chat_template: has '") + other +
                  "', which no chat format here writes; to do without it, "
                  "name one by --chat-format: " +
                  chat_format_names());
  for (auto& known : detail::known_chat_formats()) {
    if (known.all_of.empty() || !std::ranges::all_of(known.all_of, holds) || std::ranges::any_of(known.none_of, holds))
      continue;
    chat_format& format = known.format;
    const auto put = [&](const std::string& from, std::string_view to) {
      if (from.empty() || to.empty() || from == to) return;
      for (std::string* text : {&format.before, &format.after, &format.user.begin, &format.system.end, &format.user.end,
                                &format.assistant.end})
        detail::replace_all(*text, from, to);
      for (std::string& stop : format.stops) detail::replace_all(stop, from, to);
    };
    put(known.bos, bos);
    put(known.eos, eos);
    if (!holds("bos_token") && !holds(known.bos)) format.before.clear();
    else if (format.before.empty() && holds("bos_token") && known.bos.empty()) format.before = bos;
    if (format.system_as == chat_format::system_turn::own)
      format.default_system = detail::default_system_of(template_text, format.system);
    return std::move(format);
  }
  throw error("chat_template: none of the chat formats; name one by --chat-format: " + chat_format_names());
}

GRADUS_IMPL std::optional<chat_format> chat_format_of(const text_settings& of) {
  const auto written = of.chat_templates.find("default");
  if (written == of.chat_templates.end()) return std::nullopt;
  return recognised_chat_format(written->second, of.begin.value_or(""), of.end.value_or(""));
}

GRADUS_IMPL std::optional<chat_format> read_chat_format(const std::filesystem::path& tokenizer_config) {
  const std::string path = tokenizer_config.string();
  const text_settings said = read_text_settings(tokenizer_config.parent_path());
  try {
    auto found = chat_format_of(said);
    if (const auto file = said.files.find("tokenizer_config.json"); !found && file != said.files.end())
      if (!parse_json(file->second, path).value("chat_template", nlohmann::json()).is_null())
        throw error("chat_template: is no text, and no list with a \"default\"");
    return found;
  } catch (const error& problem) { throw error(path + ": " + problem.what()); }
}

}  // namespace gradus
