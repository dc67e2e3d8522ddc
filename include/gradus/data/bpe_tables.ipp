#pragma once
#include "../core/sort.hpp"
#include "bpe_tables.hpp"

namespace gradus::detail {

GRADUS_IMPL added_token_finder::added_token_finder(std::span<const added_token> tokens, bool second) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].second == second) order_.push_back(i);
  detail::sort_stably(order_,
                      [&](std::size_t a, std::size_t b) { return tokens[a].text.size() > tokens[b].text.size(); });
  for (const std::size_t i : order_)
    if (const char c = tokens[i].text.front(); starts_.find(c) == std::string::npos) starts_ += c;
}

GRADUS_IMPL added_token_finder::match added_token_finder::find(std::span<const added_token> tokens,
                                                               std::string_view text) const {
  const std::string_view starts = starts_;
  for (std::size_t at = 0; at < text.size(); ++at) {
    // Nearly all tokenizers have one first character, for which the C library is fastest.
    at = starts.size() == 1 ? text.find(starts.front(), at) : text.find_first_of(starts, at);
    if (at == std::string_view::npos) break;
    for (const std::size_t i : order_)
      if (text.substr(at).starts_with(tokens[i].text)) return {at, &tokens[i]};
  }
  return {};
}

}  // namespace gradus::detail
