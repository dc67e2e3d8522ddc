#pragma once
#include <algorithm>

#include "tokens.hpp"

namespace gradus {

GRADUS_IMPL void detail::refuse_token(const token_sequence& from, std::size_t at, std::int64_t token,
                                      std::size_t vocabulary) {
  throw error(from.name() + ": token " + std::to_string(from.first() + at) + " is " + std::to_string(token) +
              ", outside the vocabulary of " + std::to_string(vocabulary));
}

GRADUS_IMPL void token_sequence::check_vocabulary(std::size_t vocabulary) const {
  if (token_bytes_ < 4 && vocabulary >= std::size_t{1} << 8 * token_bytes_) return;  // any value is a token
  constexpr std::size_t piece = 1 << 18;
  std::vector<std::byte> buffer;
  for (std::size_t start = 0; start < size_; start += piece)
    part(start, std::min(piece, size_ - start)).read(buffer).visit([&](auto tokens) {
      const auto bad = std::ranges::find_if(
          tokens, [=](auto t) { return std::cmp_less(t, 0) || std::cmp_greater_equal(t, vocabulary); });
      if (bad != tokens.end())
        detail::refuse_token(*this, start + static_cast<std::size_t>(bad - tokens.begin()), *bad, vocabulary);
    });
}

}  // namespace gradus
