#pragma once
#include <gradus/core/extent.hpp>

namespace bench {

namespace gr = gradus;

/// The sizes of a model and of its step.
struct sizes {
  gr::index layers, heads, width, context, vocabulary;
  gr::index batch;       ///< sequences a step
  gr::index accumulate;  ///< micro-batches that they are taken in, where there are several
  constexpr gr::index padded_vocabulary() const { return (vocabulary + 63) / 64 * 64; }
};

#ifdef TRAIN_SIZES  // "layers, heads, ...", from bench/train/CMakeLists.txt
inline constexpr sizes model_sizes{TRAIN_SIZES};
#endif

}  // namespace bench
