#pragma once
#include <type_traits>

#include "../core/dtype.hpp"

namespace gradus {

/// A precision policy: what parameters are stored in, what operations compute in, what sums inside an operation accumulate
/// in, and what reductions (losses, norms, statistics) give.
template <class Store, class Compute = Store, class Accumulate = compute_type<Compute>, class Reduce = Accumulate>
struct precision {
  using store = Store;
  using compute = Compute;
  using accumulate = Accumulate;
  using reduce = Reduce;
};

/// All of it in float.
using fp32 = precision<float>;
/// All of it in double.
using fp64 = precision<double>;

/// What a model is instantiated with: a device and a precision policy.
template <class Device, class Precision = fp32>
struct on {
  static_assert(std::is_same_v<typename Precision::store, typename Precision::compute>,
                "on<device, precision>: operations compute in what parameters are stored in; policies that differ are "
                "not there yet");
  using device = Device;
  using precision = Precision;
  using store = typename Precision::store;
  using compute = typename Precision::compute;
};

}  // namespace gradus
