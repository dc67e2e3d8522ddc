#pragma once
// BERT's normalization of text, and its split into words.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "../core/config.hpp"

namespace gradus {

/// How a text is rewritten before BERT's tokenizer splits it (Devlin et al. 2019, tokenization.py), in this order.
/// Gives the result of BertNormalizer of Hugging Face's tokenizers 0.23.
struct bert_normalizer {
  bool clean_text = true;                  ///< removes control characters, and makes each white space a space
  bool handle_chinese_chars = true;        ///< puts spaces around CJK ideographs, so that each is a word
  std::optional<bool> strip_accents = {};  ///< removes accents: "é" becomes "e"; not given: as `lowercase`
  bool lowercase = true;

  /// The rewritten text, in UTF-8. Bytes that are not UTF-8 count as U+FFFD, which `clean_text` removes.
  std::string operator()(std::string_view text) const;

  friend bool operator==(const bert_normalizer&, const bert_normalizer&) = default;
};

/// Splits a normalized text into words as BERT does: at white space, with each punctuation character by itself. The
/// text must outlive the splitter; `next()` returns an empty word at its end.
class bert_splitter {
 public:
  explicit bert_splitter(std::string_view text) : text_(text) {}

  std::string_view next();

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "bert_text.ipp"
#endif
