#pragma once
#include <gradus/model/init.hpp>
#include <gradus/nn/normalization.hpp>
#include <gradus/ops/channel_norm/channel_norm.hpp>
#include <gradus/ops/pool/pool.hpp>

#include "cases.hpp"

inline constexpr gr::pool two{.size = 2}, three{.size = 3, .stride = 2, .padding = 1};

template <class D>
void images_cases(runner<D>& r) {
  using images = gr::shape<3, 4, 9, 10>;
  const auto max_pool = [](auto x) { return gr::max_pool2d<two>(x) * 2.0; };
  const auto padded = [](auto x) { return gr::max_pool2d<three>(x) + gr::avg_pool2d<three>(x); };
  const auto adaptive = [](auto x) { return gr::adaptive_max_pool2d<2, 3>(x) + gr::adaptive_avg_pool2d<2, 3>(x); };
  r.template differentiate<float, images>("max_pool2d", max_pool);
  r.template differentiate<gr::bf16, images>("max_pool2d, bf16", max_pool);
  r.template differentiate<float, images>("pooling with overlapping windows", padded);
  r.template differentiate<double, images>("pooling with overlapping windows, double", padded);
  r.template differentiate<float, images>("adaptive pooling", adaptive);
  r.template differentiate<float, gr::shape<2, 3, 40, 40>>("adaptive pooling, places above 255", adaptive);
  r.template differentiate<float, gr::shape<2, 3, 17>>("max_pool1d", [](auto x) { return gr::max_pool1d<three>(x); });
  r.template differentiate<float, images>("the mean of planes",
                                          [](auto x) { return gr::adaptive_avg_pool2d<1, 1>(x); });

  const auto group_norm = [](auto x, auto w, auto b) { return gr::group_norm<2>(x, w, b); };
  const auto batch_norm = [&](auto x, auto w, auto b) {
    constexpr gr::index_t channels = gr::shape_of<decltype(w)>::size;
    gr::nn::batch_norm<gr::on<D>, channels> norm;
    gr::init(norm, r.ctx(), gr::normal_init{});
    auto y = gr::batch_norm(x, w, b, norm.running_mean, norm.running_var);
    r.keep("running mean", gr::to_host(norm.running_mean.value()), 2e-5);
    r.keep("running variance", gr::to_host(norm.running_var.value()), 2e-5);
    r.keep("by the running state",
           gr::to_host(gr::batch_norm(x.value(), w.value(), b.value(), norm.running_mean, norm.running_var)), 1e-2);
    return y;
  };
  const auto both = [&]<class T, class X>(const char* name, T, X) {
    constexpr gr::index_t channels = X::extent(1);
    using row = gr::shape<channels>;
    r.template differentiate<T, X, row, row>(std::string("batch_norm") + name, batch_norm);
    r.template differentiate<T, X, row, row>(std::string("group_norm") + name, group_norm);
  };
  both(", odd", float{}, gr::shape<5, 6, 3, 7>{});
  both(", whole runs", float{}, gr::shape<3, 4, 4, 8>{});
  both(" of long runs", float{}, gr::shape<2, 4, 30, 41>{});
  both(" of columns", float{}, gr::shape<37, 10>{});
  r.template differentiate<float, gr::shape<1100, 2>, gr::shape<2>, gr::shape<2>>("batch_norm of many samples",
                                                                                  batch_norm);
  both(", double", double{}, gr::shape<5, 6, 9>{});
  both(", bf16", gr::bf16{}, gr::shape<4, 6, 4, 4>{});
  both(" of runs shorter than a load, bf16", gr::bf16{}, gr::shape<7, 4, 5>{});
}

// Computed in the .cpp file.
std::vector<record> images_on_cpu(unsigned seed);
