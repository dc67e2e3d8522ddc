#include <gradus/data/npy.hpp>
#include <gradus/gradus.hpp>
#include <vector>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: bounded_shape_without_extents
// expect: from_host<T, Shape>\(ctx, values\): Shape is bounded; give the extents
auto make(gr::context<gr::cpu>& ctx, const float* values) {
  return gr::from_host<float, gr::shape<gr::upto<64>, 3>>(ctx, values);
}
// twin
auto make(gr::context<gr::cpu>& ctx, const float* values) {
  return gr::from_host<float, gr::shape<gr::upto<64>, 3>>(ctx, values, 7);
}

// case: data_of_a_temporary
// expect: x\.data\(\): x is a temporary tensor, whose memory ends here; name it first
auto f(gr::context<gr::cpu>& ctx) { return gr::ones<float, gr::shape<3>>(ctx).data(); }
// twin
auto f(gr::context<gr::cpu>& ctx) {
  auto x = gr::ones<float, gr::shape<3>>(ctx);
  return *x.data();
}

// case: from_values_count
// expect: from_values<T, Shape>\(ctx, \{\.\.\.\}\): the number of values must equal the number of elements of Shape
// expect: one_value_for_each_element<3(UL)?, 4(UL)?>
auto f(gr::context<gr::cpu>& ctx) { return gr::from_values<float, gr::shape<2, 2>>(ctx, {1, 2, 3}); }
// twin
auto f(gr::context<gr::cpu>& ctx) { return gr::from_values<float, gr::shape<2, 2>>(ctx, {1, 2, 3, 4}); }

// case: from_values_of_another_type
// expect: from_values<T, Shape>\(ctx, values\): the values must be of type T
// expect-lines: 15
auto f(gr::context<gr::cpu>& ctx, const std::vector<double>& values) {
  return gr::from_values<float, gr::shape<4, 8>>(ctx, values);
}
// twin
auto f(gr::context<gr::cpu>& ctx, const std::vector<float>& values) {
  return gr::from_values<float, gr::shape<4, 8>>(ctx, values);
}

// case: init_on_another_device
// expect: init\(model, context, rule\): the context must be of the device that the model's parameters are on
// expect: parameters_are_on<.*param_kind<float, (gradus::)?meta.*, (gradus::)?cpu>
void f(gr::nn::linear<gr::on<gr::meta>, 2, 2>& model, gr::context<gr::cpu>& ctx) {
  gr::init(model, ctx, gr::normal_init{});
}
// twin
void f(gr::nn::linear<gr::on<gr::cpu>, 2, 2>& model, gr::context<gr::cpu>& ctx) {
  gr::init(model, ctx, gr::normal_init{});
}

// case: shape_too_large
// expect: a shape of more than 2\^48 elements
static_assert(gr::shape<(1ul << 40), (1ul << 40)>::size > 0);
// twin
static_assert(gr::shape<(1ul << 20), (1ul << 20)>::size > 0);

// case: shape_with_an_empty_axis
// expect: every extent of a shape must be at least 1
gr::shape<2, 0> s;
// twin
gr::shape<2, 1> s;

// case: stream_from_a_number
// expect(g++): use of deleted function .gradus::stream::stream\(int\)
// expect(clang++): deleted constructor
gr::stream s(0);
// twin
gr::stream s;

// case: tensor_of_an_unknown_type
// expect: tensor<T, Shape>: T must be one of f64 f32 bf16 f16 i64 i32 u16 u8 bool
// expect: is_element<char>
gr::tensor<char, gr::shape<2>> x;
// twin
gr::tensor<bool, gr::shape<2>> x;

// case: tensor_without_a_shape
// expect: tensor<T, Shape>: Shape must be gradus::shape<\.\.\.>
gr::tensor<float, int> x;
// twin
tensor<2> x;

// case: values_of_a_temporary
// expect: x\.values\(\): x is a temporary tensor, whose memory ends here; name it first, or copy it by to_host\(x\)
auto f(gr::context<gr::cpu>& ctx) { return gr::ones<float, gr::shape<3>>(ctx).values(); }
// twin
auto f(gr::context<gr::cpu>& ctx) {
  auto x = gr::ones<float, gr::shape<3>>(ctx);
  return *x.values().data();
}

// case: view_indices
// expect: view\(i\.\.\.\): one index for each axis
float f(gr::view<float, gr::shape<2, 3>> x) { return x(1); }
// twin
float f(gr::view<float, gr::shape<2, 3>> x) { return x(1, 2); }

// case: view_of_a_temporary
// expect: x\.view\(\): x is a temporary tensor, whose memory ends here; name it first
auto f(gr::context<gr::cpu>& ctx) { return gr::ones<float, gr::shape<3>>(ctx).view(); }
// twin
auto f(gr::context<gr::cpu>& ctx) {
  auto x = gr::ones<float, gr::shape<3>>(ctx);
  return *x.view().data();
}

// case: write_npy_of_bf16
// expect: write_npy: NumPy has no bf16; write gr::cast<float>\(x\)
void f(const gr::tensor<gr::bf16, gr::shape<2, 4>>& x) { gr::write_npy("x.npy", x); }
// twin
void f(const gr::tensor<gr::f16, gr::shape<2, 4>>& x) { gr::write_npy("x.npy", x); }
