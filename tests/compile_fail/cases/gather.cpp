#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: combine_rows_places
// expect: combine_rows\(x, weights, places\): x must have a row for each of the places
// expect: each_place_has_a_row<(gradus::)?shape<30(UL)?, 12(UL)?>, (gradus::)?shape<30(UL)?, 2(UL)?> ?>
auto f(const tensor<30, 12>& x, const tensor<30, 2>& weights,
       const gr::tensor<std::int32_t, gr::shape<30, 2>>& places) {
  return gr::combine_rows(x, weights, places);
}
// twin
auto f(const tensor<60, 12>& x, const tensor<30, 2>& weights,
       const gr::tensor<std::int32_t, gr::shape<30, 2>>& places) {
  return gr::combine_rows(x, weights, places);
}

// case: combine_rows_weights
// expect: combine_rows\(x, weights, places\): weights must have the shape of places
// expect: weights_have_places<(gradus::)?shape<30(UL)?, 3(UL)?>, (gradus::)?shape<30(UL)?, 2(UL)?> ?>
auto f(const tensor<60, 12>& x, const tensor<30, 3>& weights,
       const gr::tensor<std::int32_t, gr::shape<30, 2>>& places) {
  return gr::combine_rows(x, weights, places);
}
// twin
auto f(const tensor<60, 12>& x, const tensor<30, 2>& weights,
       const gr::tensor<std::int32_t, gr::shape<30, 2>>& places) {
  return gr::combine_rows(x, weights, places);
}

// case: dispatch_rows_places
// expect: dispatch_rows\(x, places\): places must have a row for each row of x
// expect: rows_of_x_equal_rows_of_places<30(UL)?, 28(UL)?>
auto f(const tensor<30, 12>& x, const gr::tensor<std::int32_t, gr::shape<28, 2>>& places) {
  return gr::dispatch_rows(x, places);
}
// twin
auto f(const tensor<30, 12>& x, const gr::tensor<std::int32_t, gr::shape<30, 2>>& places) {
  return gr::dispatch_rows(x, places);
}

// case: embedding_of_floats
// expect: embedding\(tokens, table\): tokens must be integers
auto f(const tensor<4>& tokens, const tensor<50, 8>& table) { return gr::embedding(tokens, table); }
// twin
auto f(const gr::tensor<std::int32_t, gr::shape<4>>& tokens, const tensor<50, 8>& table) {
  return gr::embedding(tokens, table);
}

// case: embedding_table_rank
// expect: embedding\(tokens, table\): the table must have two axes
auto f(const gr::tensor<std::int32_t, gr::shape<4>>& tokens, const tensor<50, 8, 2>& table) {
  return gr::embedding(tokens, table);
}
// twin
auto f(const gr::tensor<std::int32_t, gr::shape<4>>& tokens, const tensor<50, 8>& table) {
  return gr::embedding(tokens, table);
}

// case: gather_shapes
// expect: gather<axis>\(x, indices\): indices need the shape of x, but for the axis
// expect: shapes_fit_beside<(gradus::)?shape<2(UL)?, 9(UL)?>, (gradus::)?shape<3(UL)?, 4(UL)?>, 1(UL)?>
auto f(const tensor<3, 4>& x, const gr::tensor<std::int32_t, gr::shape<2, 9>>& indices) {
  return gr::gather<1>(x, indices);
}
// twin
auto f(const tensor<3, 4>& x, const gr::tensor<std::int32_t, gr::shape<3, 9>>& indices) {
  return gr::gather<1>(x, indices);
}

// case: grouped_matmul_columns
// expect: grouped_matmul\(x, w, offsets\): columns of x must equal rows of each matrix of w
// expect: columns_of_x_equal_rows_of_w<12(UL)?, 16(UL)?>
auto f(const tensor<30, 12>& x, const tensor<4, 16, 7>& w, const gr::tensor<std::int32_t, gr::shape<5>>& offsets) {
  return gr::grouped_matmul(x, w, offsets);
}
// twin
auto f(const tensor<30, 12>& x, const tensor<4, 12, 7>& w, const gr::tensor<std::int32_t, gr::shape<5>>& offsets) {
  return gr::grouped_matmul(x, w, offsets);
}

// case: grouped_matmul_offsets
// expect: grouped_matmul\(x, w, offsets\): offsets must be one more than the matrices of w
// expect: offsets_are_one_more_than_matrices<4(UL)?, 4(UL)?>
auto f(const tensor<30, 12>& x, const tensor<4, 12, 7>& w, const gr::tensor<std::int32_t, gr::shape<4>>& offsets) {
  return gr::grouped_matmul(x, w, offsets);
}
// twin
auto f(const tensor<30, 12>& x, const tensor<4, 12, 7>& w, const gr::tensor<std::int32_t, gr::shape<5>>& offsets) {
  return gr::grouped_matmul(x, w, offsets);
}

// case: index_add_values
// expect: index_add<axis>\(x, indices, values\): values need the shape of x, with an entry for each index
auto f(const tensor<5, 4>& x, const gr::tensor<std::int32_t, gr::shape<2>>& indices, const tensor<3, 4>& values) {
  return gr::index_add<0>(x, indices, values);
}
// twin
auto f(const tensor<5, 4>& x, const gr::tensor<std::int32_t, gr::shape<2>>& indices, const tensor<2, 4>& values) {
  return gr::index_add<0>(x, indices, values);
}

// case: mixture_experts_per_token
// expect: mixture<X, Width, Experts, PerToken>: PerToken must be at least 1 and at most Experts
// expect: experts_per_token_exist<9(UL)?, 8(UL)?>
gr::nn::mixture<gr::on<gr::cpu>, 64, 8, 9> f();
auto g() { return sizeof(f()); }
// twin
gr::nn::mixture<gr::on<gr::cpu>, 64, 8, 2> f();
auto g() { return sizeof(f()); }

// case: scatter_add_values
// expect: scatter_add<axis>\(x, indices, values\): values need the shape of indices
// expect: values_have_indices<(gradus::)?shape<3(UL)?, 8(UL)?>, (gradus::)?shape<3(UL)?, 9(UL)?> ?>
auto f(const tensor<3, 4>& x, const gr::tensor<std::int32_t, gr::shape<3, 9>>& indices, const tensor<3, 8>& values) {
  return gr::scatter_add<1>(x, indices, values);
}
// twin
auto f(const tensor<3, 4>& x, const gr::tensor<std::int32_t, gr::shape<3, 9>>& indices, const tensor<3, 9>& values) {
  return gr::scatter_add<1>(x, indices, values);
}

// case: sort_by_group_of_floats
// expect: sort_by_group<groups>\(x\): x must be integers
auto f(const tensor<30, 2>& x) { return gr::sort_by_group<8>(x); }
// twin
auto f(const gr::tensor<std::int32_t, gr::shape<30, 2>>& x) { return gr::sort_by_group<8>(x); }

// case: topk_count
// expect: topk<count>\(x\): count must be at least 1 and at most the last extent of x
// expect: count_is_within<5(L)?, 4(UL)?>
auto f(const tensor<3, 4>& x) { return gr::topk<5>(x); }
// twin
auto f(const tensor<3, 4>& x) { return gr::topk<4>(x); }
