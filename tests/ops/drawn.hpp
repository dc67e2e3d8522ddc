// What a table of operations says of a case besides its function, for the CPU's runner and the GPU's.
#pragma once

#include <functional>
#include <vector>

namespace gradus_test {

using values = std::vector<double>;

/// The result in double, from the elements of the operands.
using reference_of_values = std::function<values(const std::vector<values>& operands)>;

/// How operands are drawn, and how close results must come.
struct drawn {
  double low = 0, high = 0;  ///< uniform between these; normal if they are equal
  bool apart = false;        ///< distinct values, none near 0: no kink is near
  double offset = 0;         ///< added to normal values
  double within = 1e-5;      ///< largest error in float, relative to about the size of elements
  bool halves = true;        ///< also in bf16
};

}  // namespace gradus_test
