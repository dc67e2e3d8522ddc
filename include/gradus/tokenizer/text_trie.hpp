#pragma once
// Many texts, found where they begin in another one.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "pair_table.hpp"

namespace gradus::detail {

/// A set of texts by their bytes. Text i of the list has the number i; of equal ones, the last is found.
class text_trie {
 public:
  text_trie() = default;
  explicit text_trie(const std::vector<std::string_view>& texts);

  /// Calls found(end, number) for each text of the set that is text[begin, end), short ones first.
  template <class Found>
  void for_each_at(std::string_view text, std::size_t begin, const Found& found) const {
    std::int32_t node = 0;
    for (std::size_t end = begin; end < text.size();) {
      const auto* next = nodes_.find(node, static_cast<unsigned char>(text[end]));
      if (next == nullptr) break;
      node = next->result;
      ++end;
      if (const std::int32_t number = numbers_[static_cast<std::size_t>(node)]; number >= 0) found(end, number);
    }
  }

 private:
  pair_table nodes_;                   // node and byte: the next node
  std::vector<std::int32_t> numbers_;  // of the text that ends at a node; -1: none
};

}  // namespace gradus::detail

#ifndef GRADUS_COMPILED
#include "text_trie.ipp"
#endif
