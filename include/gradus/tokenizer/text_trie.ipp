#pragma once
#include <algorithm>

#include "text_trie.hpp"

namespace gradus::detail {

GRADUS_IMPL text_trie::text_trie(const std::vector<std::string_view>& texts) : numbers_(1, -1) {
  std::vector<std::string_view> sorted = texts;
  std::ranges::sort(sorted);
  std::size_t nodes = 1;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const std::string_view before = i == 0 ? std::string_view() : sorted[i - 1];
    nodes += sorted[i].size() - static_cast<std::size_t>(std::ranges::mismatch(before, sorted[i]).in1 - before.begin());
  }
  nodes_ = pair_table(nodes);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::int32_t node = 0;
    for (const char c : texts[i]) {
      const auto next = static_cast<std::int32_t>(numbers_.size());
      if (nodes_.insert(node, static_cast<unsigned char>(c), 0, next)) numbers_.push_back(-1);
      node = nodes_.find(node, static_cast<unsigned char>(c))->result;
    }
    numbers_[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(i);
  }
}

}  // namespace gradus::detail
