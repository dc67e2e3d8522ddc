#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/error.hpp"

namespace gradus {

/// Finds the first of some texts in bytes that come one after another, and holds back those that could be the beginning
/// of one.
class stop_text_finder {
 public:
  /// Throws gradus::error where a text is empty.
  explicit stop_text_finder(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (const std::string& text : texts_)
      if (text.empty()) throw error("stop_text_finder: a text to stop at is empty; it must have a byte at least");
  }

  /// Takes more bytes, and gives those that are certain not to belong to one of the texts. Once one was found, nothing
  /// more comes.
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
  /// What was held back, where no more bytes come.
  std::string finish() { return std::exchange(held_, {}); }

 private:
  // Of the end of what is held: the longest that a text begins with.
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
