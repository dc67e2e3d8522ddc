#include "shared.hpp"

odr_matrix make_matrix(gradus::context<gradus::cpu>& ctx) {
  return gradus::from_values<float, gradus::shape<2, 3>>(ctx, {1, 2, 3, 4, 5, 6});
}

odr_loss record_loss(odr_tape& tape, const odr_matrix& x, const odr_weight& w) {
  const auto y = gradus::linear(tape.watch(x), w);
  return gradus::sum(y * y);
}
