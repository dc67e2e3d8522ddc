#pragma once
#include <utility>

#include "../core/sort.hpp"
#include "added_tokens.hpp"

namespace gradus::detail {

GRADUS_IMPL added_token_finder::added_token_finder(std::vector<entry> tokens) : tokens_(std::move(tokens)) {
  sort_stably(tokens_, [](const entry& a, const entry& b) { return a.text.size() > b.text.size(); });
  for (const entry& e : tokens_)
    if (const char c = e.text.front(); starts_.find(c) == std::string::npos) starts_ += c;
}

GRADUS_IMPL added_token_finder::match added_token_finder::find(std::string_view text) const {
  const std::string_view starts = starts_;
  for (std::size_t at = 0; at < text.size(); ++at) {
    // Nearly all tokenizers have one first character, for which the C library is fastest.
    at = starts.size() == 1 ? text.find(starts.front(), at) : text.find_first_of(starts, at);
    if (at == std::string_view::npos) break;
    for (const entry& e : tokens_)
      if (text.substr(at).starts_with(e.text)) return {at, &e};
  }
  return {};
}

}  // namespace gradus::detail
