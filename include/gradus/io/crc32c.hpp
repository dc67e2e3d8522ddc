#pragma once
// The checksum CRC-32C.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "../core/config.hpp"

namespace gradus {

namespace detail {

// tables[0] is for one byte; tables[k] for a byte followed by k zero bytes ("slicing by 8", Kounavis and Berry 2008).
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_crc32c_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 255u];
    }
  return tables;
}
inline constexpr auto crc32c_tables = make_crc32c_tables();

}  // namespace detail

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of bytes that arrive in parts. Detects changes within 32 bits in a row.
class crc32c {
 public:
  GRADUS_OF_BUILD void add(std::span<const std::byte> bytes) {
    static_assert(std::endian::native == std::endian::little, "crc32c: a little-endian machine is needed");
    const auto& table = detail::crc32c_tables;
    std::uint32_t crc = state_;
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
      std::uint64_t eight;
      std::memcpy(&eight, bytes.data(), 8);
#if defined(__AVX__)
      // The compilers' builtin for the SSE 4.2 instruction, which every processor with AVX has.
      crc = static_cast<std::uint32_t>(__builtin_ia32_crc32di(crc, eight));
#else
      eight ^= crc;
      crc = 0;
      for (std::size_t k = 0; k < 8; ++k) crc ^= table[7 - k][(eight >> (8 * k)) & 255u];
#endif
    }
    for (const std::byte b : bytes) crc = (crc >> 8) ^ table[0][(crc ^ static_cast<std::uint32_t>(b)) & 255u];
    state_ = crc;
  }
  std::uint32_t value() const { return ~state_; }

 private:
  std::uint32_t state_ = 0xFFFFFFFFu;
};

/// CRC-32C of these bytes.
inline std::uint32_t crc32c_of(std::span<const std::byte> bytes) {
  crc32c sum;
  sum.add(bytes);
  return sum.value();
}

}  // namespace gradus
