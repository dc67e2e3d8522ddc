/* The C functions of the model in rings.hpp: which ring of a target has a dart hit? */
#ifndef RINGS_H
#define RINGS_H

#include <gradus/interop/c_api.h>

/* Examples are places (x, y), targets are rings 0 to 3, outputs are 4 scores; a batch has 1 to 64. */
GRADUS_C_API_DECLARE(rings, float, int32_t, float);

#endif
