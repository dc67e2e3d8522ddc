// The passes of unfused_adamw, compiled once for all programs of a model.
#include "unfused_adamw.hpp"

namespace bench {

template struct unfused_passes<model_sizes, 0, device>;
template struct unfused_passes<model_sizes, 1, device>;
template struct unfused_passes<model_sizes, 2, device>;
template struct unfused_passes<model_sizes, 3, device>;
template struct unfused_passes<model_sizes, 4, device>;
template struct unfused_passes<model_sizes, 5, device>;
template struct unfused_passes<model_sizes, 6, device>;
template struct unfused_passes<model_sizes, 7, device>;
template struct unfused_passes<model_sizes, 8, device>;
template struct unfused_passes<model_sizes, 9, device>;

}  // namespace bench
