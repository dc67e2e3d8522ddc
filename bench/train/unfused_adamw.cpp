// The passes of unfused_adamw, compiled once for all programs of a model.
#include "unfused_adamw.hpp"

namespace bench {

template struct unfused_passes<model_sizes, 0, gr::cpu>;
template struct unfused_passes<model_sizes, 1, gr::cpu>;
template struct unfused_passes<model_sizes, 2, gr::cpu>;
template struct unfused_passes<model_sizes, 3, gr::cpu>;
template struct unfused_passes<model_sizes, 4, gr::cpu>;
template struct unfused_passes<model_sizes, 5, gr::cpu>;
template struct unfused_passes<model_sizes, 6, gr::cpu>;
template struct unfused_passes<model_sizes, 7, gr::cpu>;
template struct unfused_passes<model_sizes, 8, gr::cpu>;
template struct unfused_passes<model_sizes, 9, gr::cpu>;

}  // namespace bench
