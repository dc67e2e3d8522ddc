#pragma once
// Describes a recompute schedule in words.

#include <cstddef>
#include <cstdint>
#include <string>

#include "../autodiff/checkpoint/chain.hpp"
#include "../core/vector.hpp"

namespace gradus::detail {

inline std::string names_of(const block_facts& block, std::uint64_t keep) {
  std::string names;
  for (std::size_t i = 0; i < block.operations.size() && i < 64; ++i)
    if (((keep >> i) & 1u) != 0)
      names.append(names.empty() ? "" : ", ").append(block.operations[i].name).append(" (").append(std::to_string(i)) +=
          ")";
  return names;
}

// Appends one line for each run of blocks that keep the same.
inline void describe_parts(const detail::vector<chain_part>& parts, const detail::vector<block_facts>& blocks,
                           const std::string& indent, std::string& text) {
  if (parts.empty()) text.append(indent).append("every block: keep all\n");
  for (std::size_t i = 0; i < parts.size();) {
    const chain_part& p = parts[i];
    std::size_t end = i + 1;
    while (end < parts.size() && p.inner.empty() && parts[end].inner.empty() && parts[end].region == p.region &&
           parts[end].keep == p.keep && parts[end].offload == p.offload)
      ++end;
    const std::size_t last = parts[end - 1].last;
    text.append(indent).append(p.first == last ? "block " : "blocks ").append(std::to_string(p.first));
    if (p.first != last) text.append(" to ").append(std::to_string(last));
    if (!p.region) text.append(": keep all\n");
    else if (!p.inner.empty()) text.append(": keep the input, run again in backward\n");
    else text.append(": keep ").append(p.keep == 0 ? "nothing" : names_of(blocks[p.first], p.keep));
    if (p.region && p.inner.empty()) {
      if (p.offload != 0) text.append("; in host memory ").append(names_of(blocks[p.first], p.offload));
      text += '\n';
    }
    if (!p.inner.empty()) describe_parts(p.inner, blocks, indent + "  ", text);
    i = end;
  }
}

}  // namespace gradus::detail
