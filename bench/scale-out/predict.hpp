#pragma once
// What the model says of GPUs.

namespace bench {

/// Prints a JSON line for each assumption, and for each model, number of GPUs, sharding and order of sums.
void predict_gpus();

}  // namespace bench
