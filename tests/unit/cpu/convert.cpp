#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <gradus/cpu/convert.hpp>
#include <type_traits>

namespace gr = gradus;

namespace {

template <class T, std::size_t Lanes>
std::size_t wrong_conversions() {
  std::size_t wrong = 0;
  const auto check = [&](const float(&x)[Lanes]) {
    typename gr::cpu_kit::vector_of<float, Lanes>::type v;
    std::memcpy(&v, x, sizeof v);
    T out[Lanes];
    gr::cpu_kit::store_as<float, Lanes>(v, out);
    for (std::size_t i = 0; i < Lanes; ++i) {
      const bool subnormal = std::fpclassify(x[i]) == FP_SUBNORMAL;  // which AVX-512's instruction for bf16 takes for 0
      const bool zero = std::is_same_v<T, gr::bf16> && gr::cpu_kit::has_bf16_instructions && Lanes == 16 && subnormal;
      wrong += out[i].bits != T(zero ? std::copysign(0.0f, x[i]) : x[i]).bits;
    }
  };
  for (std::uint32_t first = 0; first < 0x10000; first += Lanes) {
    T in[Lanes];
    for (std::uint32_t i = 0; i < Lanes; ++i) in[i] = T::from_bits(static_cast<std::uint16_t>(first + i));
    typename gr::cpu_kit::vector_of<float, Lanes>::type v;
    gr::cpu_kit::load_as<float, Lanes>(in, v);
    float x[Lanes];
    std::memcpy(x, &v, sizeof x);
    for (std::size_t i = 0; i < Lanes; ++i)
      wrong += std::bit_cast<std::uint32_t>(x[i]) != std::bit_cast<std::uint32_t>(static_cast<float>(in[i]));
    // Each of them, half way to the next, and a bit to either side.
    for (std::uint32_t low : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      float y[Lanes];
      for (std::size_t i = 0; i < Lanes; ++i)
        y[i] = std::bit_cast<float>((static_cast<std::uint32_t>(first + i) << 16) | low);
      check(y);
      for (float& f : y) f = std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) ^ 0x5000u);
      check(y);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("vectors of 16-bit elements convert as single ones do, all of them", T, gr::bf16, gr::f16) {
  CHECK(wrong_conversions<T, 4>() == 0);
  CHECK(wrong_conversions<T, 8>() == 0);   // of f16, by an instruction where there is F16C
  CHECK(wrong_conversions<T, 16>() == 0);  // by one of AVX-512
}
