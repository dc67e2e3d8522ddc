#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: log_softmax_of_integers
// expect: log_softmax\(x\): x must have floating-point elements
auto f(const gr::tensor<std::int32_t, gr::shape<3>>& x) { return gr::log_softmax(x); }
// twin
auto f(const tensor<3>& x) { return gr::log_softmax(x); }

// case: logsumexp_of_integers
// expect: logsumexp\(x\): x must have floating-point elements
auto f(const gr::tensor<int, gr::shape<3>>& x) { return gr::logsumexp(x); }
// twin
auto f(const tensor<3>& x) { return gr::logsumexp(x); }

// case: softmax_axis
// expect: softmax<axis>\(x\): x has no such axis
// expect: axes_exist<(gradus::)?axes<2>, 2
auto f(const tensor<2, 3>& x) { return gr::softmax<2>(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::softmax<-2>(x); }

// case: softmax_of_a_scalar
// expect: softmax\(x\): x needs at least one axis
auto f(const tensor<>& x) { return gr::softmax(x); }
// twin
auto f(const tensor<3>& x) { return gr::softmax(x); }

// case: softmax_of_integers
// expect: softmax\(x\): x must have floating-point elements
// expect: is_floating<int>
auto f(const gr::tensor<int, gr::shape<2, 3>>& x) { return gr::softmax(x); }
// twin
auto f(const tensor<2, 3>& x) { return gr::softmax(x); }
