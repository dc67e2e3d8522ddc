#pragma once
#include <gradus/core/device.hpp>
#include <gradus/core/extent.hpp>

namespace bench {

namespace gr = gradus;

/// What the models are trained on, and what asks for memory as it does and computes nothing.
#ifdef TRAIN_ON_GPU
using device = gr::cuda;
using planned_device = gr::cuda_meta;
#else
using device = gr::cpu;
using planned_device = gr::meta;
#endif

/// The sizes of a model and of its step.
struct sizes {
  gr::index_t layers, heads, width, context, vocabulary;
  gr::index_t batch;       ///< sequences a step
  gr::index_t accumulate;  ///< micro-batches that they are taken in, where there are several
  constexpr gr::index_t padded_vocabulary() const { return (vocabulary + 63) / 64 * 64; }
};

/// The models, of which CMakeLists.txt says which one a program trains.
namespace models {
inline constexpr sizes tiny{2, 2, 32, 16, 300, 8, 4};
inline constexpr sizes nano{6, 6, 384, 256, 256, 12, 4};
inline constexpr sizes seed{4, 4, 256, 512, 50257, 8, 4};
inline constexpr sizes gpt2{12, 12, 768, 1024, 50257, 8, 2};
}  // namespace models
#ifdef TRAIN_MODEL
inline constexpr sizes model_sizes = models::TRAIN_MODEL;
#endif

}  // namespace bench
