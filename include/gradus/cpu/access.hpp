#pragma once
#include <cstddef>
#include <cstring>

#include "../memory/context.hpp"

namespace gradus {

template <>
struct device_access<cpu> {
  static void zero(context<cpu>&, void* to, std::size_t bytes) { std::memset(to, 0, bytes); }
  static void copy(context<cpu>&, void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  static void upload(context<cpu>&, void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  static void download(context<cpu>&, void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
};

}  // namespace gradus
