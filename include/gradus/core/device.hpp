#pragma once
// Devices are types. A device names its stream and the resource that serves its memory; how bytes move is device_access.

namespace gradus {

class stream;       // memory/stream.hpp: work runs inline, in order
class cuda_stream;  // cuda/stream.hpp
class meta_stream;  // memory/stream.hpp: nothing runs

template <class Stream>
class basic_resource;  // memory/resource.hpp
class accounting;      // meta/accounting.hpp

using memory_resource = basic_resource<stream>;     ///< where CPU memory comes from
using cuda_resource = basic_resource<cuda_stream>;  ///< where GPU memory comes from

/// The processor this program runs on.
struct cpu {
  using stream_type = gradus::stream;
  using resource_type = memory_resource;
};

/// An NVIDIA GPU; include gradus/cuda.hpp to use it.
struct cuda {
  using stream_type = cuda_stream;
  using resource_type = cuda_resource;
};

/// Computes nothing and accounts for everything: shapes, bytes, FLOPs. Usable inside constant expressions.
struct meta {
  using stream_type = meta_stream;
  using resource_type = accounting;
};

template <class D>
class context;

/// How bytes reach a device: zero, upload, download and copy, ordered on the context's stream. Specialised per device.
template <class D>
struct device_access;

/// The code that runs `Op` on `Device`: static member functions `forward` and, where the op has one, `backward`.
/// Specialised beside each op, in the files cpu.hpp and cuda.hpp of its folder in ops.
template <class Op, class Device>
struct kernel;

/// On `meta` every kernel is empty. These are all the entry points that operations call.
template <class Op>
struct kernel<Op, meta> {
  template <class... Args>
  static constexpr void forward(Args&&...) {}
  template <class... Args>
  static constexpr void backward(Args&&...) {}
  template <class... Args>
  static constexpr void backward_a(Args&&...) {}
  template <class... Args>
  static constexpr void backward_b(Args&&...) {}
  template <class... Args>
  static constexpr void backward_w(Args&&...) {}
  template <class... Args>
  static constexpr void backward_x(Args&&...) {}
};

}  // namespace gradus
