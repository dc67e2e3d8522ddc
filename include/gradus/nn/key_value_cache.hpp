#pragma once
// The keys and values of all past tokens, for generation.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "../core/config.hpp"
#include "../core/device.hpp"
#include "../core/error.hpp"
#include "../memory/context.hpp"
#include "../ops/attention/cached.hpp"
#include "../tensor/creation.hpp"

namespace gradus::nn {

/// The keys and values of all layers of a transformer, for sequences that grow by a few tokens at a time. They are one
/// tensor, allocated once: 2 * Layers * Batch * Heads * Context * Depth numbers of the matmuls' compute type.
///
/// All sequences have the same length. A step passes layer(i, count) to each layer, in any order, and then calls
/// advance(count).
/// @tparam X       gradus::on<device, precision> of the layers
/// @tparam Context the most tokens of a sequence
/// @tparam Depth   numbers in a head
template <class X, index_t Layers, index_t Batch, index_t Heads, index_t Context, index_t Depth>
class key_value_cache {
 public:
  using device = typename X::device;
  using value_type = typename X::compute;
  using layer_shape = shape<Batch, Heads, Context, Depth>;
  using tensor_type = tensor<value_type, shape<Layers, 2, Batch, Heads, Context, Depth>, device>;
  static constexpr std::size_t bytes = tensor_type::bytes;

  /// An empty cache in memory of `ctx`. Throws out_of_memory.
  constexpr explicit key_value_cache(context<device>& ctx) : tensor_(ctx, category::activation) {}

  /// Tokens in the cache.
  constexpr index_t position() const { return position_; }
  static constexpr index_t context_length() { return Context; }
  /// Tokens that still fit.
  constexpr index_t room() const { return Context - position_; }
  /// The cache of layer `i`, for `count` new tokens. Throws gradus::error if there is no such layer, or no room.
  constexpr key_value_view<value_type, layer_shape, device> layer(index_t i, index_t count) {
    if (i >= Layers) fail_layer(i);
    check(count);
    value_type* const keys = device::computes ? tensor_.data() + 2 * i * layer_shape::size : nullptr;
    value_type* const values = device::computes ? keys + layer_shape::size : nullptr;
    return {view<value_type, layer_shape, device>(keys), view<value_type, layer_shape, device>(values), position_,
            count};
  }
  /// Positions of the next `Times` tokens, for a table of learned positions: int32 [Times], at most Context - 1.
  template <index_t Times>
  auto positions() const {
    std::array<std::int32_t, Times> at{};
    for (index_t t = 0; t < Times; ++t) at[t] = static_cast<std::int32_t>(std::min(position_ + t, Context - 1));
    return from_host<std::int32_t, shape<Times>>(tensor_.owner(), at.data());
  }
  /// Counts `count` tokens that all layers have computed. Throws gradus::error if there is no room.
  constexpr void advance(index_t count) {
    check(count);
    position_ += count;
  }
  /// Drops all tokens but the first `position`. Throws gradus::error if there are fewer.
  constexpr void rewind(index_t position) {
    if (position > position_) fail_rewind(position);
    position_ = position;
  }
  /// Copies the one sequence of `one` to every sequence.
  void repeat(const key_value_cache<X, Layers, 1, Heads, Context, Depth>& one)
    requires(device::computes)
  {
    constexpr index_t head = Context * Depth;  // of one sequence
    for (index_t kind = 0; kind < 2 * Layers; ++kind)
      for (index_t sequence = 0; sequence < Batch; ++sequence)
        for (index_t h = 0; h < Heads; ++h)
          device_access<device>::copy(tensor_.owner(), tensor_.data() + ((kind * Batch + sequence) * Heads + h) * head,
                                      one.tensor_.data() + (kind * Heads + h) * head,
                                      one.position_ * Depth * sizeof(value_type));
    position_ = one.position_;
  }

 private:
  template <class, index_t, index_t, index_t, index_t, index_t>
  friend class key_value_cache;
  constexpr void check(index_t count) const {
    if (count > room()) fail_full(count);
  }
  [[noreturn]] static void fail_layer(index_t i) {
    throw error("key_value_cache: layer(" + std::to_string(i) + "): it was made for the layers 0 .. " +
                std::to_string(Layers - 1));
  }
  [[noreturn]] void fail_full(index_t count) const {
    throw error("key_value_cache: " + std::to_string(count) + " more times do not fit behind " +
                std::to_string(position_) + "; it was made for " + std::to_string(Context) +
                ": rewind it and compute the last of them again");
  }
  [[noreturn]] void fail_rewind(index_t position) const {
    throw error("key_value_cache: rewind(" + std::to_string(position) + "): it keeps no more than " +
                std::to_string(position_));
  }

  tensor_type tensor_;
  index_t position_ = 0;
};

}  // namespace gradus::nn
