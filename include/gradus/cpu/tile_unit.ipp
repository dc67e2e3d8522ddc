#pragma once
#include "../core/error.hpp"
#include "../core/platform.hpp"
#include "tile_unit.hpp"

namespace gradus::cpu_kit {  // shared by all builds

GRADUS_IMPL tile_permission::tile_permission(const stream&) {
  if (platform::permit_tiles()) return;
  throw error(
      "this program was compiled for tiles (AMX), which this processor or its system refuses: compile it with "
      "-mno-amx-tile");
}

}  // namespace gradus::cpu_kit
