#pragma once
// Finds stop texts in generated text.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/error.hpp"

namespace gradus {

/// Finds the first of several texts in a stream of bytes, and holds back bytes that may begin one.
class stop_text_finder {
 public:
  /// Throws gradus::error if a text is empty.
  explicit stop_text_finder(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (const std::string& text : texts_)
      if (text.empty()) throw error("stop_text_finder: a stop text is empty; it must have at least one byte");
  }

  /// Adds bytes; returns those that are certainly not part of one of the texts. Returns nothing after one was found.
  std::string add(std::string_view bytes) {
    std::string certain;
    for (const char byte : bytes) {
      if (found_) break;
      held_ += byte;
      std::size_t stop = 0;  // the longest text that ends here
      for (const std::string& text : texts_)
        if (held_.ends_with(text)) stop = std::max(stop, text.size());
      if (stop > 0) {
        found_ = true;
        certain += held_.substr(0, held_.size() - stop);
        held_.clear();
        break;
      }
      const std::size_t keep = longest_beginning();
      certain += held_.substr(0, held_.size() - keep);
      held_.erase(0, held_.size() - keep);
    }
    return certain;
  }
  bool found() const { return found_; }
  /// The bytes held back, at the end of the stream.
  std::string finish() { return std::exchange(held_, {}); }

 private:
  // The length of the longest suffix of the held bytes that begins a text.
  std::size_t longest_beginning() const {
    std::size_t longest = 0;
    for (const std::string& text : texts_)
      for (std::size_t n = std::min(held_.size(), text.size()); n > longest; --n)
        if (std::string_view(held_).ends_with(std::string_view(text).substr(0, n))) longest = n;
    return longest;
  }

  std::vector<std::string> texts_;
  std::string held_;
  bool found_ = false;
};

}  // namespace gradus
