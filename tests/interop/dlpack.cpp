// A module of C functions for dlpack.py, which exchanges tensors with PyTorch and NumPy.
#include <cstdio>
#include <gradus/gradus.hpp>
#include <gradus/interop/dlpack.hpp>
#include <limits>

namespace gr = gradus;

namespace {

struct fixture {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context<gr::cpu> ctx{stream, stats};
};
fixture& here() {
  static fixture at;
  return at;
}

template <class Managed>
void* exported() {
  return gr::to_dlpack<Managed>(gr::reshape<2, 3>(gr::arange<float, 6>(here().ctx)));
}
template <class Managed>
double sum_of(void* managed) {
  return gr::item(gr::sum(gr::from_dlpack<double, gr::shape<4, 5>>(here().ctx, static_cast<Managed*>(managed))));
}

}  // namespace

extern "C" {
/// A [2, 3] tensor of float: 0, 1, ... 5.
void* gradus_export(int versioned) {
  return versioned != 0 ? exported<gr::dlpack::managed_tensor_versioned>() : exported<gr::dlpack::managed_tensor>();
}
/// The sum of a [4, 5] tensor of double, which is then given back; NaN if it is refused.
double gradus_sum(void* managed, int versioned) {
  try {
    return versioned != 0 ? sum_of<gr::dlpack::managed_tensor_versioned>(managed)
                          : sum_of<gr::dlpack::managed_tensor>(managed);
  } catch (const gr::error& refusal) {
    std::fprintf(stderr, "%s\n", refusal.what());
    return std::numeric_limits<double>::quiet_NaN();
  }
}
long gradus_live_bytes() { return static_cast<long>(here().stats.all().live); }
}
