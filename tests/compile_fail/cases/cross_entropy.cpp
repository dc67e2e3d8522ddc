#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: bounded_classes
// expect: cross_entropy\(logits, targets\): the last axis of logits, the classes, is not upto<N>
auto loss(const tensor<4, gr::upto<10>>& logits, const gr::tensor<int, gr::shape<4>>& targets) {
  return gr::cross_entropy(logits, targets);
}
// twin
auto loss(const tensor<4, 10>& logits, const gr::tensor<int, gr::shape<4>>& targets) {
  return gr::cross_entropy(logits, targets);
}

// case: cross_entropy_float_targets
// expect: cross_entropy\(logits, targets\): targets must be integers
auto f(const tensor<8, 50>& logits, const tensor<8>& targets) { return gr::cross_entropy(logits, targets); }
// twin
auto f(const tensor<8, 50>& logits, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::cross_entropy(logits, targets);
}

// case: cross_entropy_targets
// expect(g++): error: static assertion failed: cross_entropy\(logits, targets\): targets must have the shape of logits without the last axis$
// expect(g++): note: .gradus::detail::targets_match_rows_of_logits<gradus::shape<8, 16>, gradus::shape<8, 15> ?>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::targets_match_rows_of_logits<gradus::shape<8, 16>, gradus::shape<8, 15> ?>.:? "?cross_entropy\(logits, targets\): targets must have the shape of logits without the last axis"?$
auto f(const tensor<8, 16, 50>& logits, const gr::tensor<std::int32_t, gr::shape<8, 15>>& targets) {
  return gr::cross_entropy(logits, targets);
}
// twin
auto f(const tensor<8, 16, 50>& logits, const gr::tensor<std::int32_t, gr::shape<8, 16>>& targets) {
  return gr::cross_entropy(logits, targets);
}

// case: cross_entropy_vocabulary
// expect: cross_entropy<Vocabulary>\(logits, targets\): Vocabulary must not exceed the columns of logits
// expect: vocabulary_fits_columns_of_logits<51(UL)?, 50(UL)?>
auto f(const tensor<8, 50>& logits, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::cross_entropy<51>(logits, targets);
}
// twin
auto f(const tensor<8, 50>& logits, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::cross_entropy<49>(logits, targets);
}

// case: cross_entropy_weights
// expect: nll_loss, cross_entropy\(x, targets, weights\): weights must be one floating-point number per class
auto f(const tensor<4, 9>& x, const gr::tensor<std::int32_t, gr::shape<4>>& t, const tensor<4>& w) {
  return gr::cross_entropy(x, t, w, {.smoothing = 0.1});
}
// twin
auto f(const tensor<4, 9>& x, const gr::tensor<std::int32_t, gr::shape<4>>& t, const tensor<9>& w) {
  return gr::cross_entropy(x, t, w, {.smoothing = 0.1});
}

// case: linear_cross_entropy_columns
// expect: linear_cross_entropy\(x, table, targets\): columns of x must equal columns of table
// expect: columns_of_x_equal_columns_of_table<16(UL)?, 15(UL)?>
auto f(const tensor<8, 16>& x, const tensor<50, 15>& table, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}
// twin
auto f(const tensor<8, 16>& x, const tensor<50, 16>& table, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}

// case: linear_cross_entropy_float_targets
// expect: linear_cross_entropy\(x, table, targets\): targets must be integers
auto f(const tensor<8, 16>& x, const tensor<50, 16>& table, const tensor<8>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}
// twin
auto f(const tensor<8, 16>& x, const tensor<50, 16>& table, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}

// case: linear_cross_entropy_of_two_types
// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*linear_cross_entropy<50, 0>, float, double, int>
auto f(const tensor<8, 16>& x, const gr::tensor<double, gr::shape<50, 16>>& table,
       const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}
// twin
auto f(const tensor<8, 16>& x, const tensor<50, 16>& table, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}

// case: linear_cross_entropy_table_rank
// expect: linear_cross_entropy\(x, table, targets\): x needs at least one axis, and table two
auto f(const tensor<8, 16>& x, const tensor<16>& table, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}
// twin
auto f(const tensor<8, 16>& x, const tensor<50, 16>& table, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}

// case: linear_cross_entropy_targets
// expect: linear_cross_entropy\(x, table, targets\): targets must have the shape of x without the last axis
// expect: shape<8, 4>, (gradus::)?shape<8, 3>
auto f(const tensor<8, 4, 16>& x, const tensor<50, 16>& table,
       const gr::tensor<std::int32_t, gr::shape<8, 3>>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}
// twin
auto f(const tensor<8, 4, 16>& x, const tensor<50, 16>& table,
       const gr::tensor<std::int32_t, gr::shape<8, 4>>& targets) {
  return gr::linear_cross_entropy(x, table, targets);
}

// case: linear_cross_entropy_vocabulary
// expect: linear_cross_entropy<Vocabulary>\(x, table, targets\): Vocabulary must not exceed the rows of table
// expect: vocabulary_fits_rows_of_table<51(UL)?, 50(UL)?>
auto f(const tensor<8, 16>& x, const tensor<50, 16>& table, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::linear_cross_entropy<51>(x, table, targets);
}
// twin
auto f(const tensor<8, 16>& x, const tensor<50, 16>& table, const gr::tensor<std::int32_t, gr::shape<8>>& targets) {
  return gr::linear_cross_entropy<49>(x, table, targets);
}

// case: mse_loss_shapes
// expect: mse_loss\(x, targets\) and other losses: x and targets must have the same shape
// expect: shape<4, 1>, (gradus::)?shape<4>
auto f(const tensor<4, 1>& x, const tensor<4>& t) { return gr::huber_loss(x, t); }
// twin
auto f(const tensor<4, 1>& x, const tensor<4, 1>& t) { return gr::huber_loss(x, t); }

// case: nll_loss_targets
// expect: nll_loss, cross_entropy\(x, targets\): targets must be integers in the shape of x without the last axis
auto f(const tensor<4, 9>& x, const gr::tensor<std::int32_t, gr::shape<4, 1>>& t) { return gr::nll_loss(x, t); }
// twin
auto f(const tensor<4, 9>& x, const gr::tensor<std::int32_t, gr::shape<4>>& t) { return gr::nll_loss(x, t); }
