#include "bert_cases.hpp"
#include "device.hpp"

TEST_CASE(
    "a BERT on the GPU trains as on the CPU, with sequences in a row, dropout, accumulation, clipping and a scaled "
    "loss") {
  if (no_gpu()) return;
  agree(&bert_on_cpu, [](auto& r) { bert_cases(r); });
}
