#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <type_traits>
#include <variant>

#include "../core/philox.hpp"
#include "batches.hpp"
#include "token_examples.hpp"

namespace gradus {

GRADUS_IMPL std::size_t token_example::targets() const {
  return is_target.empty() ? 0 : static_cast<std::size_t>(std::count(is_target.begin() + 1, is_target.end(), 1));
}

GRADUS_IMPL example_encoder::example_encoder(const tokenizer* by, std::optional<chat_format> format,
                                             bool special_tokens)
    : by_(by), format_(std::move(format)), special_tokens_(special_tokens) {
  if (by_ != nullptr) encoder_.emplace(*by_);
}

GRADUS_IMPL token_example example_encoder::encode_parts(std::span<const text_part> parts) {
  token_example all;
  if (encoder_) {
    encoder_->encode_parts(parts, [&](std::span<const std::int32_t> some, int group) {
      all.tokens.insert(all.tokens.end(), some.begin(), some.end());
      all.is_target.resize(all.tokens.size(), group == 1);
    });
    return all;
  }
  for (const text_part& part : parts) {
    for (const char c : part.text) all.tokens.push_back(static_cast<unsigned char>(c));
    all.is_target.resize(all.tokens.size(), part.group == 1);
  }
  return all;
}

/// The token that ends a text, unless it has it.
GRADUS_IMPL void example_encoder::end(token_example& example) const {
  const auto token = by_ != nullptr ? by_->end_token() : std::optional<std::int32_t>('\n');
  if (!token || (!example.tokens.empty() && example.tokens.back() == *token && example.is_target.back() == 1)) return;
  example.tokens.push_back(*token);
  example.is_target.push_back(1);
}

GRADUS_IMPL token_example example_encoder::encode(const plain_example& example) {
  return encode(completion_example{{}, example.text});
}

GRADUS_IMPL token_example example_encoder::encode(const completion_example& example) {
  const text_part parts[] = {{example.prompt, special_tokens_, 0}, {example.completion, special_tokens_, 1}};
  token_example all = encode_parts(parts);
  if (const auto begin = by_ != nullptr ? by_->begin_token() : std::nullopt;
      begin && (all.tokens.empty() || all.tokens.front() != *begin)) {
    all.tokens.insert(all.tokens.begin(), *begin);
    all.is_target.insert(all.is_target.begin(), 0);
  }
  end(all);
  return all;
}

GRADUS_IMPL const chat_format& example_encoder::format() const {
  if (!format_)
    throw error("a chat needs the format that the model writes chats in; name one by --chat-format: " +
                chat_format_names());
  return *format_;
}

GRADUS_IMPL token_example example_encoder::encode_segments(std::span<const chat_segment> segments) {
  std::vector<text_part> parts;
  for (const chat_segment& s : segments) parts.push_back({s.text, s.marks, s.is_target ? 1 : 0});
  return encode_parts(parts);
}

GRADUS_IMPL token_example example_encoder::encode(const chat_example& example) {
  return encode_segments(format().render(example.messages));
}

GRADUS_IMPL std::vector<std::int32_t> example_encoder::open(std::span<const chat_message> messages) {
  return encode_segments(format().open(messages)).tokens;
}

GRADUS_IMPL void token_examples::add(example_encoder& encoder, const text_example& example, std::size_t context,
                                     long_examples longer) {
  std::vector<token_example> encoded;  // one, or the chosen one and the rejected one
  const auto encode = [&]<class Content>(const Content& content) {
    encoded.push_back(encoder.encode(content));
    chats |= std::is_same_v<Content, chat_example>;
  };
  try {
    std::visit(
        [&]<class Content>(const Content& content) {
          if constexpr (std::is_same_v<Content, preference_example>) {
            std::visit(encode, content.chosen);
            std::visit(encode, content.rejected);
          } else {
            encode(content);
          }
        },
        example.content);
    if (!examples.empty() && (encoded.size() == 2) != !rejected.empty())
      throw error(encoded.size() == 2 ? "is a preference, and the examples before it are none"
                                      : "is no preference, and the examples before it are");
  } catch (const error& problem) { throw error(example.where + ": " + problem.what()); }
  const auto is_long = [=](const token_example& e) { return e.tokens.size() > context; };
  const bool was_long = std::ranges::any_of(encoded, is_long);
  if (was_long) {
    if (longer == long_examples::skip) {
      ++skipped;
      return;
    }
    for (token_example& e : encoded) {
      e.tokens.resize(std::min(context, e.tokens.size()));
      e.is_target.resize(e.tokens.size());
    }
  }
  if (std::ranges::any_of(encoded, [](const token_example& e) { return e.targets() == 0; })) {
    ++without_target;
    return;
  }
  if (was_long) ++cut;
  examples.push_back(std::move(encoded.front()));
  if (encoded.size() == 2) rejected.push_back(std::move(encoded.back()));
}

GRADUS_IMPL token_examples read_token_examples(std::span<const std::filesystem::path> paths, example_encoder& encoder,
                                               std::size_t context, long_examples longer) {
  token_examples all;
  for (const auto& path : paths) {
    ignored_keys ignored;
    read_text_examples(path, [&](text_example&& example) {
      ignored.add(example);
      all.add(encoder, example, context, longer);
    });
    if (const std::string keys = ignored.text(); !keys.empty()) all.notes.push_back(path.string() + ": " + keys);
  }
  return all;
}

GRADUS_IMPL document_rows pack_documents(std::span<const std::size_t> lengths, std::size_t capacity, std::uint64_t seed,
                                         std::uint64_t epoch) {
  constexpr std::size_t window = 512;
  // An epoch's examples and its rows are shuffled by two keys.
  const auto key = [&](std::uint32_t which) {
    return random_key{seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32) ^ which << 31,
                      random_domain::data};
  };
  document_rows closed;
  std::multimap<std::size_t, std::vector<std::size_t>> open;  // rows, by the room that they have left
  for (std::size_t at = 0; at < lengths.size();) {
    std::vector<std::size_t> some;
    for (; at < lengths.size() && some.size() < window; ++at)
      some.push_back(detail::shuffled(at, lengths.size(), key(0)));
    std::ranges::stable_sort(some, std::greater(), [&](std::size_t i) { return lengths[i]; });
    for (const std::size_t i : some) {
      if (lengths[i] > capacity)
        throw error("pack_documents: document " + std::to_string(i) + " of " + std::to_string(lengths[i]) +
                    " does not fit into a row of " + std::to_string(capacity));
      const auto best = open.lower_bound(lengths[i]);
      auto row = open.extract(best != open.end() ? best : open.emplace(capacity, std::vector<std::size_t>()));
      row.key() -= lengths[i];
      row.mapped().push_back(i);
      open.insert(std::move(row));
    }
    while (open.size() > (at < lengths.size() ? 1 : 0))
      closed.push_back(std::move(open.extract(open.begin()).mapped()));
  }
  document_rows shuffled(closed.size());
  for (std::size_t i = 0; i < closed.size(); ++i)
    shuffled[detail::shuffled(i, closed.size(), key(1))] = std::move(closed[i]);
  return shuffled;
}

GRADUS_IMPL pack_sequence::pack_sequence(std::vector<std::size_t> lengths, std::size_t capacity, std::uint64_t seed)
    : lengths_(std::move(lengths)), capacity_(capacity), seed_(seed) {
  if (lengths_.empty()) throw error("pack_sequence: no documents are given");
  start(0, 0);
}

GRADUS_IMPL void pack_sequence::start(std::uint64_t epoch, std::uint64_t first) {
  rows_ = pack_documents(lengths_, capacity_, seed_, epoch);
  epoch_ = epoch;
  first_ = first;
}

GRADUS_IMPL std::span<const std::size_t> pack_sequence::operator[](std::uint64_t number) {
  if (number < first_) start(0, 0);
  while (number - first_ >= rows_.size()) start(epoch_ + 1, first_ + rows_.size());
  return rows_[number - first_];
}

GRADUS_IMPL packed_batch pack_batch(std::span<const token_example> examples, std::span<const std::size_t> documents,
                                    std::size_t n) {
  packed_batch row;
  row.tokens.resize(n);
  row.targets.assign(n, -1);
  row.spans.resize(2 * n);
  row.positions.resize(n);
  const auto number = [](std::size_t i) { return static_cast<std::int32_t>(i); };
  for (const std::size_t d : documents) {
    const token_example& e = examples[d];
    const std::size_t begin = row.used, end = begin + e.positions();
    if (end > n) throw error("pack_batch: the documents have more than the row's " + std::to_string(n) + " positions");
    for (std::size_t i = begin; i < end; ++i) {
      row.tokens[i] = e.tokens[i - begin];
      row.positions[i] = number(i - begin);
      row.spans[2 * i] = number(begin);
      row.spans[2 * i + 1] = number(end);
      if (e.is_target[i - begin + 1] == 0) continue;
      row.targets[i] = e.tokens[i - begin + 1];
      ++row.predicted;
    }
    row.used = end;
  }
  for (std::size_t i = row.used; i < n; ++i) {
    row.spans[2 * i] = number(i);
    row.spans[2 * i + 1] = number(i + 1);
  }
  return row;
}

}  // namespace gradus
