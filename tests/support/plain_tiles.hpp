// A tile unit in plain C++, for kernels on processors without one.
#pragma once

#include <gradus/core/dtype.hpp>
#include <gradus/memory/stream.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace gradus_test {

/// native_tiles without the instructions, with their results (Intel's manual, TDPBF16PS). Tiles hold NaN when a session
/// begins; to use one outside of a session is an error.
class plain_tiles {
  using tile = std::array<std::array<std::uint32_t, 16>, 16>;
  static inline thread_local bool open = false;
  static inline thread_local std::array<tile, 8> tiles;

  static tile& at(std::size_t i) {
    if (!open) throw std::logic_error("a tile outside of a session");
    return tiles.at(i);
  }
  static float flushed(float x) { return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }
  static float as_float(std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return flushed(x);
  }
  static float first(std::uint32_t pair) { return as_float(pair << 16); }
  static float second(std::uint32_t pair) { return as_float(pair & 0xffff0000); }

 public:
  static void prepare(gradus::stream&) {}

  struct session {
    session() {
      if (open) throw std::logic_error("a session within a session");
      open = true;
      for (tile& t : tiles)
        for (auto& row : t) row.fill(0xffffffff);
    }
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session() { open = false; }
  };

  template <int Tile>
  static void zero() {
    for (auto& row : at(Tile)) row.fill(0);
  }
  template <int Tile>
  static void load(const void* from, std::size_t stride) {
    for (auto& row : at(Tile)) {
      std::memcpy(row.data(), from, sizeof row);
      from = static_cast<const std::byte*>(from) + stride;
    }
  }
  template <int Tile>
  static void store(void* to, std::size_t stride) {
    for (const auto& row : at(Tile)) {
      std::memcpy(to, row.data(), sizeof row);
      to = static_cast<std::byte*>(to) + stride;
    }
  }
  // A product of two bf16 is exact in float, so that a sum with it is rounded once, with or without a multiply-add.
  template <int Sum, int A, int B>
  static void dot() {
    for (std::size_t m = 0; m < 16; ++m) {
      float firsts[16] = {}, seconds[16] = {};
      for (std::size_t k = 0; k < 16; ++k) {
        const float x = first(at(A)[m][k]), y = second(at(A)[m][k]);
        const auto& across = at(B)[k];
        for (std::size_t n = 0; n < 16; ++n) {
          firsts[n] = flushed(firsts[n] + x * first(across[n]));
          seconds[n] = flushed(seconds[n] + y * second(across[n]));
        }
      }
      for (std::size_t n = 0; n < 16; ++n) {
        const float sum = flushed(as_float(at(Sum)[m][n]) + flushed(firsts[n] + seconds[n]));
        std::memcpy(&at(Sum)[m][n], &sum, sizeof sum);
      }
    }
  }
};

}  // namespace gradus_test
