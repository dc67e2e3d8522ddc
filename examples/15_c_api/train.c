/* Lesson 15: a model in a program of another language. C trains it, predicts, saves it, and goes on from the file. */
#include <stdio.h>
#include <stdlib.h>

#include "darts.h"
#include "rings.h"

static float places[2 * batch];
static int32_t hit[batch];

static rings_handle* begin(uint64_t seed, void* memory, size_t bytes) {
  rings_handle* model = rings_init(seed, memory, bytes);
  if (model == NULL) {
    fprintf(stderr, "%s\n", rings_error(NULL));
    exit(1);
  }
  return model;
}

static void need(int status, const rings_handle* model) {
  if (status == 0) return;
  fprintf(stderr, "%s\n", rings_error(model));
  exit(1);
}

static double step(rings_handle* model, uint32_t number) {
  double loss = 0;
  throw_darts(number * batch, batch, places, hit);
  need(rings_step(model, places, hit, batch, 1e-2, &loss), model);
  return loss;
}

static double accuracy(rings_handle* model) {
  int right = 0;
  for (uint32_t done = 0; done < unseen; done += batch) {
    const uint32_t count = unseen - done < batch ? unseen - done : batch; /* the last batch is smaller */
    float scores[4 * batch];
    throw_darts(first_unseen + done, count, places, hit);
    need(rings_predict(model, places, count, scores), model);
    for (uint32_t i = 0; i < count; ++i) {
      int best = 0;
      for (int ring = 1; ring < 4; ++ring)
        if (scores[4 * i + ring] > scores[4 * i + best]) best = ring;
      right += best == hit[i];
    }
  }
  return (double)right / unseen;
}

int main(void) {
  void* memory = malloc(rings_bytes()); /* the program's own; NULL would leave it to the library */
  if (memory == NULL) return 1;
  rings_handle* model = begin(7, memory, rings_bytes());
  printf("memory: %zu bytes\n", rings_bytes());
  for (uint32_t i = 1; i <= steps; ++i) {
    const double loss = step(model, i);
    if (i % 100 == 0) printf("step %u loss %.13a\n", i, loss);
  }
  printf("accuracy %.3f\n", accuracy(model));

  need(rings_save(model, "rings.safetensors"), model);
  rings_handle* other = begin(1, NULL, 0);
  need(rings_load(other, "rings.safetensors"), other);
  const double next = step(model, steps + 1), loaded = step(other, steps + 1);
  printf("step %d loss %.13a, and %.13a from the file\n", steps + 1, next, loaded);
  rings_free(other);
  rings_free(model);
  free(memory);
  return next == loaded ? 0 : 1;
}
