// The library: all of a training as C functions.
#include "rings.hpp"

#include <gradus/interop/c_api.hpp>

#include "rings.h"

static_assert(gr::c_handle<ring_training>::bytes() < 128 << 10);  // known before anything runs

GRADUS_C_API(rings, ring_training);
