#pragma once
#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "../core/error.hpp"
#include "tile_unit.hpp"

namespace gradus::cpu_kit {  // shared by all builds

GRADUS_IMPL tile_permission::tile_permission(const stream&) {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long ask = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux 5.16
  if (syscall(SYS_arch_prctl, ask, tile_data) == 0) return;
#endif
  throw error(
      "this program was compiled for tiles (AMX), which this processor or its system refuses: compile it with "
      "-mno-amx-tile");
}

}  // namespace gradus::cpu_kit
