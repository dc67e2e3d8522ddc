#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include "../core/printable.hpp"
#include "text.hpp"
#include "unicode.hpp"
#include "wordpiece.hpp"

namespace gradus {

GRADUS_IMPL wordpiece_tokenizer::wordpiece_tokenizer(std::vector<std::string> tokens, std::vector<added_token> added,
                                                     wordpiece_settings settings)
    : settings_(std::move(settings)), texts_(std::move(tokens)), added_(std::move(added)) {
  for (std::size_t id = 0; id < texts_.size(); ++id) {
    if (texts_[id].empty()) continue;
    longest_ = std::max(longest_, texts_[id].size());
    if (!words_.emplace(texts_[id], static_cast<token>(id)).second)
      throw error("wordpiece: the token '" + printable(texts_[id]) + "' occurs twice");
  }
  std::array<std::vector<detail::added_token_finder::entry>, 2> rounds;
  for (const added_token& a : added_) {
    const std::string which = "wordpiece: the added token '" + printable(a.text) + "' ";
    if (a.text.empty() || a.id < 0) throw error(which + "has no text or no id");
    if (const auto known = words_.find(a.text); known != words_.end() && known->second != a.id)
      throw error(which + "has the id " + std::to_string(a.id) + ", but in the vocabulary " +
                  std::to_string(known->second));
    const auto id = static_cast<std::size_t>(a.id);
    if (id >= texts_.size()) texts_.resize(id + 1);
    if (!texts_[id].empty() && texts_[id] != a.text)
      throw error(which + "has the id " + std::to_string(a.id) + " of '" + printable(texts_[id]) + "'");
    texts_[id] = a.text;
    std::string written = a.second ? settings_.normalizer(a.text) : a.text;
    if (!written.empty()) rounds[a.second ? 1 : 0].push_back({std::move(written), a.id});
  }
  before_ = detail::added_token_finder(std::move(rounds[0]));
  after_ = detail::added_token_finder(std::move(rounds[1]));
  const auto needed = [&](const std::string& text) {
    const auto id = id_of(text);
    if (!id) throw error("wordpiece: the vocabulary has no token '" + printable(text) + "'");
    return *id;
  };
  unknown_ = needed(settings_.unknown);
  begin_ = needed(settings_.begin);
  separator_ = needed(settings_.separator);
}

GRADUS_IMPL const std::string& wordpiece_tokenizer::text_of(token id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= texts_.size())
    throw error("wordpiece: the token " + std::to_string(id) + " is outside the vocabulary of " +
                std::to_string(texts_.size()));
  return texts_[static_cast<std::size_t>(id)];
}

GRADUS_IMPL std::optional<wordpiece_tokenizer::token> wordpiece_tokenizer::id_of(std::string_view text) const {
  if (const auto found = words_.find(text); found != words_.end()) return found->second;
  for (const added_token& a : added_)
    if (a.text == text) return a.id;
  return std::nullopt;
}

GRADUS_IMPL bool wordpiece_tokenizer::spells_words(token id) const { return words_.contains(text_of(id)); }

GRADUS_IMPL std::vector<wordpiece_tokenizer::token> wordpiece_tokenizer::encode(std::string_view text) const {
  std::vector<token> tokens;
  const auto found = [&](token id) { tokens.push_back(id); };
  const auto plain = [&](std::string_view part) {
    bert_splitter words(part);
    for (std::string_view word = words.next(); !word.empty(); word = words.next()) add_tokens_of_word(word, tokens);
  };
  before_.split(
      text, [&](std::string_view part) { after_.split(settings_.normalizer(part), plain, found); }, found);
  return tokens;
}

GRADUS_IMPL void wordpiece_tokenizer::add_tokens_of_word(std::string_view word, std::vector<token>& to) const {
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };  // a character
  const auto characters = static_cast<std::size_t>(std::ranges::count_if(word, std::not_fn(continues)));
  if (characters > settings_.longest_word) {
    to.push_back(unknown_);
    return;
  }
  const std::size_t before = to.size();
  std::string rest(word);  // after the tokens found, with the continuation in front
  for (std::size_t prefix = 0; rest.size() > prefix; prefix = settings_.continuation.size()) {
    auto found = words_.end();
    std::size_t end = std::min(rest.size(), longest_);
    while (end > prefix && (found = words_.find(std::string_view(rest).substr(0, end))) == words_.end()) --end;
    if (found == words_.end()) {
      to.resize(before);
      to.push_back(unknown_);
      return;
    }
    to.push_back(found->second);
    rest.replace(0, end, settings_.continuation);
  }
}

GRADUS_IMPL void wordpiece_tokenizer::check_length(std::size_t max_length, std::size_t least) const {
  if (max_length < least)
    throw error("wordpiece: a length of " + std::to_string(max_length) + " has no room for " + settings_.begin +
                " and " + settings_.separator + "; at least " + std::to_string(least) + " is needed");
}

GRADUS_IMPL wordpiece_input wordpiece_tokenizer::model_input(std::string_view text, std::size_t max_length) const {
  check_length(max_length, 2);
  wordpiece_input input{encode(text), {}};
  if (input.ids.size() > max_length - 2) input.ids.resize(max_length - 2);
  input.ids.insert(input.ids.begin(), begin_);
  input.ids.push_back(separator_);
  input.segments.resize(input.ids.size(), 0);
  return input;
}

GRADUS_IMPL wordpiece_input wordpiece_tokenizer::model_input(std::string_view first, std::string_view second,
                                                             std::size_t max_length) const {
  check_length(max_length, 3);
  wordpiece_input input = model_input(first);
  std::vector<token> more = encode(second);
  // Hugging Face's strategy longest_first: a text of up to half the room is whole.
  std::size_t one = input.ids.size() - 2, two = more.size();
  if (const std::size_t room = max_length - 3; one + two > room) {
    const bool swap = one > two;
    std::size_t& shorter = swap ? two : one;
    std::size_t& longer = swap ? one : two;
    shorter = std::min(shorter, room / 2);
    longer = room - shorter;
  }
  input.ids.resize(one + 1);
  input.ids.push_back(separator_);
  input.segments.resize(input.ids.size());
  more.resize(two);
  more.push_back(separator_);
  input.ids.insert(input.ids.end(), more.begin(), more.end());
  input.segments.resize(input.ids.size(), 1);
  return input;
}

GRADUS_IMPL std::string wordpiece_tokenizer::decode(std::span<const token> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string_view word = text_of(tokens[i]);
    if (i > 0 && word.starts_with(settings_.continuation)) {
      word.remove_prefix(settings_.continuation.size());
    } else if (i > 0) {
      constexpr std::array<std::string_view, 9> joined{".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
      if (std::ranges::none_of(joined, [&](std::string_view j) { return word.starts_with(j); })) text += ' ';
    }
    text += word;
  }
  return text;
}

GRADUS_IMPL wordpiece_tokenizer read_wordpiece_vocabulary(const std::filesystem::path& path,
                                                          wordpiece_settings settings) {
  const std::string file = read_text(path);
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t end = std::min(file.find('\n', at), file.size());
    tokens.push_back(file.substr(at, end - at));
    if (tokens.back().ends_with('\r')) tokens.back().pop_back();
    if (unicode::replace_broken(tokens.back()) != tokens.back())
      throw error(path.string() + ": line " + std::to_string(tokens.size()) + " is not UTF-8");
    at = end + 1;
  }
  std::vector<added_token> special;
  for (const std::string& text :
       {settings.unknown, settings.begin, settings.separator, std::string("[PAD]"), std::string("[MASK]")})
    if (const auto found = std::ranges::find(tokens, text); found != tokens.end())
      special.push_back({.text = text, .id = static_cast<std::int32_t>(found - tokens.begin())});
  try {
    return wordpiece_tokenizer(std::move(tokens), std::move(special), std::move(settings));
  } catch (const error& e) { throw error(path.string() + ": " + e.what()); }
}

}  // namespace gradus
