#pragma once
// The tolerances of all comparisons of gradients and kernels.

namespace gradus::testing {

/// Tolerances of comparisons: relative errors.
struct tolerances {
  double gradient = 1e-6;  ///< tape against central differences in float64, relative
  double floor = 1e-2;     ///< added to the reference magnitude: for smaller values errors are absolute
  double step = 6e-6;      ///< of central differences, times max(1, |x|): about the cube root of float64's epsilon
  double f64 = 1e-12;      ///< two float64 computations of one result
  double f32 = 1e-5;       ///< a float32 computation against float64

  /// |found - wanted| relative to the larger magnitude of the two (and `floor`).
  constexpr double error(double found, double wanted) const {
    if (found == wanted) return 0;
    const double a = found < 0 ? -found : found;
    const double b = wanted < 0 ? -wanted : wanted;
    const double d = found < wanted ? wanted - found : found - wanted;
    return d / ((a > b ? a : b) + floor);
  }
};

}  // namespace gradus::testing
