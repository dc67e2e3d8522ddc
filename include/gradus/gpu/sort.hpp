#pragma once
// A stable sort of pairs by keys, by CUB.

#include <cstddef>
#include <cstdint>

#include "../memory/context.hpp"
#include "stream.hpp"

namespace gradus::cuda_kit {

/// Bytes of scratch that sort_pairs needs for `count` pairs.
std::size_t sort_room(context<cuda>& ctx, int count, int bits);
/// Sorts the pairs (keys[i], values[i]) by the lowest `bits` bits of their keys; stable. `room` has sort_room bytes.
void sort_pairs(context<cuda>& ctx, void* room, std::size_t bytes, const std::uint32_t* keys,
                std::uint32_t* sorted_keys, const std::uint32_t* values, std::uint32_t* sorted_values, int count,
                int bits);

}  // namespace gradus::cuda_kit

#if !defined(GRADUS_CUDA_COMPILED)
#include "sort.ipp"
#endif
