#pragma once
// Devices as types: each names its stream type, its memory resource and its properties.

#include <cstddef>

namespace gradus {

class stream;       // memory/stream.hpp: runs work at once
class cuda_stream;  // gpu/stream.hpp
class meta_stream;  // memory/stream.hpp: runs nothing

template <class Stream>
class basic_resource;  // memory/resource.hpp
class accounting;      // memory/accounting.hpp

using memory_resource = basic_resource<stream>;     ///< allocates CPU memory
using cuda_resource = basic_resource<cuda_stream>;  ///< allocates GPU memory

/// The host's processor.
struct cpu {
  using stream_type = gradus::stream;
  using resource_type = memory_resource;
  static constexpr std::size_t alignment = 64;    ///< of every buffer, in bytes: one cache line, one AVX-512 register
  static constexpr bool computes = true;          ///< runs kernels; if false, only shapes and bytes are counted
  static constexpr bool host_addressable = true;  ///< the host can access the memory
  static constexpr bool has_product_formats = false;  ///< has matrix products in TF32 or FP8
  static constexpr bool rounds_in_products =
      true;                                    ///< matrix products round a float operand to the other's 16-bit type
  static constexpr bool turns_filters = true;  ///< convolutions reorder or transform their filters first
  /// Steps may be captured once and replayed, so the first step must allocate what any step may need.
  static constexpr bool replays_steps = false;
  static constexpr std::size_t chunk_bytes = std::size_t{128} << 20;  ///< of results that are computed in chunks
  /// The most scratch memory in which an optimizer orthogonalises matrices of equal shape together, in bf16; 0: it
  /// orthogonalises one after another, in float.
  static constexpr std::size_t orthogonal_batch_bytes = 0;
};

/// An NVIDIA GPU; include gradus/cuda.hpp to use it.
struct cuda {
  using stream_type = cuda_stream;
  using resource_type = cuda_resource;
  static constexpr std::size_t alignment = 256;  ///< required by the fastest kernels of CUDA libraries
  static constexpr bool computes = true;
  static constexpr bool host_addressable = false;
  static constexpr bool has_product_formats = true;
  static constexpr bool rounds_in_products = false;
  static constexpr bool turns_filters = false;
  static constexpr bool replays_steps = true;
  static constexpr std::size_t chunk_bytes = std::size_t{1} << 30;
  static constexpr std::size_t orthogonal_batch_bytes = std::size_t{64} << 20;
};

/// Computes nothing and counts everything: shapes, bytes, FLOPs. Usable in constant expressions.
struct meta {
  using stream_type = meta_stream;
  using resource_type = accounting;
  static constexpr std::size_t alignment = cpu::alignment;
  static constexpr bool computes = false;
  static constexpr bool host_addressable = false;
  static constexpr bool has_product_formats = true;
  static constexpr bool rounds_in_products = cpu::rounds_in_products;
  static constexpr bool turns_filters = cpu::turns_filters;
  static constexpr bool replays_steps = cpu::replays_steps;
  static constexpr std::size_t chunk_bytes = cpu::chunk_bytes;
  static constexpr std::size_t orthogonal_batch_bytes = cpu::orthogonal_batch_bytes;
};
/// The `meta` of a GPU: requests and places memory like `cuda`.
struct cuda_meta : meta {
  static constexpr std::size_t alignment = cuda::alignment;
  static constexpr bool rounds_in_products = cuda::rounds_in_products;
  static constexpr bool turns_filters = cuda::turns_filters;
  static constexpr bool replays_steps = cuda::replays_steps;
  static constexpr std::size_t chunk_bytes = cuda::chunk_bytes;
  static constexpr std::size_t orthogonal_batch_bytes = cuda::orthogonal_batch_bytes;
};

template <class D>
class context;

/// Moves bytes to, from and on a device, ordered on the context's stream: zero, fill, upload, download and copy.
template <class D>
struct device_access;

/// The kernels of `Op` on `Device`: static functions `forward` and, if the op has one, `backward`; in several parts,
/// one overload per operand, with `gradient_of<operand>` as first argument. Specialised in cpu.hpp and cuda.hpp of each
/// op.
template <class Op, class Device>
struct kernel;

/// Selects the gradient of an operand, by its number from 0, or of several.
template <unsigned... Operands>
struct gradient_of {};

/// On devices that compute nothing, every kernel is empty.
template <class Op, class Device>
  requires(!Device::computes)
struct kernel<Op, Device> {
  template <class... Args>
  static constexpr void forward(Args&&...) {}
  template <class... Args>
  static constexpr void backward(Args&&...) {}
};

}  // namespace gradus
