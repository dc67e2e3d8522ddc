#pragma once
// The tile unit of a processor (Intel AMX): eight registers of 16 rows of 16 words, and products of such matrices.

#include <cstddef>
#include <cstdint>

#include "../core/config.hpp"
#include "../memory/stream.hpp"

namespace gradus::cpu_kit {  // shared by all builds

/// The system's permission to use tiles: a process needs it once, and each of its streams asks. Throws if refused.
struct tile_permission {
  explicit tile_permission(const stream&);
};

}  // namespace gradus::cpu_kit

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// What a kernel without tiles has instead of a unit.
struct no_tiles {
  struct session {};
  static void prepare(stream&) {}
};

/// The tile unit of the target processor. Inline assembly, because compilers' headers for it take long to compile; no
/// compiler uses tiles by itself.
#if GRADUS_TILES
class native_tiles {
 public:
  /// Throws if the system refuses tiles. Before a thread's first session.
  static void prepare(stream& on) { on.get<tile_permission>(); }

  /// While it lives, the thread has eight tiles, 0 to 7.
  class session {
   public:
    session() {
      const layout all;
      __asm__ volatile("ldtilecfg %0" : : "m"(all));
    }
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session() { __asm__ volatile("tilerelease"); }

   private:
    struct alignas(64) layout {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes_of_rows[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
  };

  /// Tile = 0.
  template <int Tile>
  static GRADUS_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(Tile));
  }
  /// Tile = 16 rows of 64 bytes, `stride` bytes apart.
  template <int Tile>
  static GRADUS_INLINE void load(const void* from, std::size_t stride) {
    __asm__ volatile("tileloadd (%0,%1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
  }
  template <int Tile>
  static GRADUS_INLINE void store(void* to, std::size_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
  }
  /// Sum += A B, for floats, rows of bf16 pairs along k, and rows of bf16 pairs across k. Adds the first factors'
  /// products up and the second ones', from 0, then both sums, then these to Sum. Subnormals count as 0.
  template <int Sum, int A, int B>
  static GRADUS_INLINE void dot() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
  }
};
#else
using native_tiles = no_tiles;
#endif

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD

#ifndef GRADUS_COMPILED
#include "tile_unit.ipp"
#endif
