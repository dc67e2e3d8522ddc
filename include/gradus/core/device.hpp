#pragma once
// Devices are types. A device names its stream and the resource that serves its memory; how bytes move is
// device_access.

#include <cstddef>

namespace gradus {

class stream;       // memory/stream.hpp: work runs inline, in order
class cuda_stream;  // cuda/stream.hpp
class meta_stream;  // memory/stream.hpp: nothing runs

template <class Stream>
class basic_resource;  // memory/resource.hpp
class accounting;      // memory/accounting.hpp

using memory_resource = basic_resource<stream>;     ///< where CPU memory comes from
using cuda_resource = basic_resource<cuda_stream>;  ///< where GPU memory comes from

/// The processor this program runs on.
struct cpu {
  using stream_type = gradus::stream;
  using resource_type = memory_resource;
  static constexpr std::size_t alignment = 64;    ///< of every buffer, in bytes: one cache line, one AVX-512 register
  static constexpr bool computes = true;          ///< kernels run; otherwise only shapes and bytes are kept account of
  static constexpr bool host_addressable = true;  ///< this program may read and write the memory through its address
  static constexpr bool has_product_formats = false;  ///< has products of operands rounded to TF32 or FP8
  static constexpr bool rounds_in_products =
      true;  ///< products round a float operand to the other's 16 bits on the way
  /// Steps may be captured once and replayed: what any step may need is made in the first one.
  static constexpr bool replays_steps = false;
};

/// An NVIDIA GPU; include gradus/cuda.hpp to use it.
struct cuda {
  using stream_type = cuda_stream;
  using resource_type = cuda_resource;
  static constexpr std::size_t alignment = 256;  ///< what CUDA libraries want for their fastest kernels
  static constexpr bool computes = true;
  static constexpr bool host_addressable = false;
  static constexpr bool has_product_formats = true;
  static constexpr bool rounds_in_products = false;
  static constexpr bool replays_steps = true;
};

/// Computes nothing and accounts for everything: shapes, bytes, FLOPs. Usable inside constant expressions.
struct meta {
  using stream_type = meta_stream;
  using resource_type = accounting;
  static constexpr std::size_t alignment = cpu::alignment;
  static constexpr bool computes = false;
  static constexpr bool host_addressable = false;
  static constexpr bool has_product_formats = true;
  static constexpr bool rounds_in_products = cpu::rounds_in_products;
  static constexpr bool replays_steps = cpu::replays_steps;
};
/// What `meta` is to the CPU, for a GPU: memory is asked for, and placed, as on `cuda`.
struct cuda_meta : meta {
  static constexpr std::size_t alignment = cuda::alignment;
  static constexpr bool rounds_in_products = cuda::rounds_in_products;
  static constexpr bool replays_steps = cuda::replays_steps;
};

template <class D>
class context;

/// How bytes reach a device: zero, fill, upload, download and copy, ordered on the context's stream. Specialised per
/// device.
template <class D>
struct device_access;

/// The code that runs `Op` on `Device`: static member functions `forward` and, where the op has one, `backward`; where
/// backward comes in several parts, each is an overload with `gradient_of<I>` as its first argument.
/// Specialised beside each op, in the files cpu.hpp and cuda.hpp of its folder in ops.
template <class Op, class Device>
struct kernel;

/// Which of an operation's gradients a kernel is asked for: that of operand I, counted from 0.
template <unsigned I>
struct gradient_of {};

/// Where nothing is computed, every kernel is empty.
template <class Op, class Device>
  requires(!Device::computes)
struct kernel<Op, Device> {
  template <class... Args>
  static constexpr void forward(Args&&...) {}
  template <class... Args>
  static constexpr void backward(Args&&...) {}
};

}  // namespace gradus
