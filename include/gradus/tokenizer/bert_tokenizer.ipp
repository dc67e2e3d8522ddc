#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include "../io/text_file.hpp"
#include "bert_tokenizer.hpp"

namespace gradus {

GRADUS_IMPL tokenizer_parts bert_parts(token_table vocabulary, normalizers::bert normalizer) {
  tokenizer_parts parts;
  for (const char* text : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (const auto id = vocabulary.find(text)) parts.added_tokens.push_back({.text = text, .id = *id});
  const auto mark = [&](const char* text) { return std::pair(std::string(text), vocabulary.at(text, "the token")); };
  parts.post_processors = {post_processors::bert{.sep = mark("[SEP]"), .cls = mark("[CLS]")}};
  parts.normalizers = {normalizer};
  parts.pre_tokenizers = {pre_tokenizers::bert()};
  parts.decoders = {decoders::word_piece()};
  token_models::word_piece model;
  model.vocab = std::move(vocabulary);
  parts.model = std::move(model);
  return parts;
}

GRADUS_IMPL tokenizer read_bert_vocabulary(const std::filesystem::path& path, normalizers::bert normalizer) {
  const std::string file = read_text(path);
  token_table vocabulary;
  try {
    for (std::size_t at = 0, line = 0; at < file.size(); ++line) {
      const std::size_t end = std::min(file.find('\n', at), file.size());
      std::string text = file.substr(at, end - at);
      if (text.ends_with('\r')) text.pop_back();
      if (unicode::count_broken(text) > 0) throw error("line " + std::to_string(line + 1) + " is not UTF-8");
      if (!text.empty()) vocabulary.add(text, static_cast<std::int32_t>(line));
      at = end + 1;
    }
    return tokenizer(bert_parts(std::move(vocabulary), normalizer));
  } catch (const error& e) { throw error(path.string() + ": " + e.what()); }
}

}  // namespace gradus
