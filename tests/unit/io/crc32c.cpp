#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <gradus/core/philox.hpp>
#include <gradus/io/crc32c.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "../../support/seed.hpp"

namespace {

// Bit by bit, from the polynomial 0x1EDC6F41, whose reflection this is.
std::uint32_t plain_crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const std::byte b : bytes) {
    crc ^= static_cast<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("CRC-32C has the values of RFC 3720") {
  CHECK(gradus::crc32c_of(bytes_of("")) == 0);
  CHECK(gradus::crc32c_of(bytes_of("123456789")) == 0xE3069283u);
  CHECK(gradus::crc32c_of(std::vector<std::byte>(32, std::byte{0})) == 0x8A9136AAu);
  CHECK(gradus::crc32c_of(std::vector<std::byte>(32, std::byte{0xFF})) == 0x62A8AB43u);
}

TEST_CASE("CRC-32C is that of the plain definition, in whatever parts the bytes come") {
  const auto seed = gradus_test::fresh_seed();
  for (std::uint32_t round = 0; round < 40; ++round) {
    const auto words = gradus::random_key{seed, round, 0}.words(0);
    std::vector<std::byte> bytes(words[0] % 300);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(gradus::random_key{seed, round, 1}.words(i)[0] & 255u);
    CAPTURE(round);
    CHECK(gradus::crc32c_of(bytes) == plain_crc32c(bytes));
    const std::span all(bytes);
    const std::size_t cut = bytes.empty() ? 0 : words[1] % bytes.size();
    gradus::crc32c sum;
    sum.add(all.first(cut));
    sum.add(all.subspan(cut));
    CHECK(sum.value() == plain_crc32c(bytes));
  }
}
