#pragma once
// Names of activation functions, for types that have one as an option.

namespace gradus::nn {

/// An activation function, by the name that it has among the library's functions.
enum class activation {
  gelu_erf,  ///< GELU by the error function
  gelu,      ///< GELU in its tanh form
  relu,
  silu,
  tanh,
};

}  // namespace gradus::nn
