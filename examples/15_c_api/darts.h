/* Where darts hit, and in which ring of the target: whole numbers, so that every language makes the same examples. */
#ifndef DARTS_H
#define DARTS_H

#include <stdint.h>

enum { batch = 64, steps = 500, unseen = 1000, first_unseen = 1000000 };

/* Examples number `first` to first + count - 1. */
static inline void throw_darts(uint32_t first, uint32_t count, float* places, int32_t* rings) {
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t h = (first + i) * 2654435769u;
    h = (h ^ h >> 16) * 2246822519u;
    h ^= h >> 13;
    const int32_t x = (int32_t)(h & 255) - 128, y = (int32_t)(h >> 8 & 255) - 128;
    const int32_t ring = (x * x + y * y) / 4096;
    places[2 * i] = (float)x / 128;
    places[2 * i + 1] = (float)y / 128;
    rings[i] = ring < 3 ? ring : 3;
  }
}

#endif
