#include "shared.hpp"

odr_matrix make_matrix(gradus::context<gradus::cpu>& ctx) {
  return gradus::from_values<float, gradus::shape<2, 3>>(ctx, {1, 2, 3, 4, 5, 6});
}
