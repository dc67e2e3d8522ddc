#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <gradus/autodiff/node.hpp>
#include <map>
#include <random>
#include <vector>

#include "../../support/seed.hpp"

using gradus::arena;

TEST_CASE("objects in an arena are aligned and apart, fill chunks of any number, and come back after a rewind") {
  std::mt19937 engine(gradus_test::fresh_seed());
  const auto draw = [&](std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(engine);
  };
  struct object {
    std::size_t bytes, alignment;
    std::byte* memory;
  };
  std::vector<object> objects{{1, 1, nullptr}, {8, 8, nullptr}, {arena::chunk_bytes, 16, nullptr}, {1, 1, nullptr}};
  for (int i = 0; i < 300; ++i)
    objects.push_back({draw(1, draw(0, 3) == 0 ? 9000 : 50), std::size_t{1} << draw(0, 4), nullptr});
  arena a;
  for (object& o : objects) {
    o.memory = static_cast<std::byte*>(a.allocate(o.bytes, o.alignment));
    std::memset(o.memory, 0x5A, o.bytes);  // the address sanitizer watches
  }
  std::map<std::uintptr_t, std::uintptr_t> ends;  // by begin
  for (const object& o : objects) {
    const auto begin = reinterpret_cast<std::uintptr_t>(o.memory);
    CHECK(begin % o.alignment == 0);
    CHECK(ends.emplace(begin, begin + o.bytes).second);
  }
  std::uintptr_t last = 0;
  for (const auto& [begin, end] : ends) {
    CHECK(begin >= last);
    last = end;
  }
  a.rewind();
  for (const object& o : objects) CHECK(a.allocate(o.bytes, o.alignment) == o.memory);
}
