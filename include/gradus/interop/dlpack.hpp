#pragma once
// Tensors as DLPack's, the exchange format of array libraries (PyTorch, NumPy, JAX, CuPy), and back, without a copy.

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "../core/shape.hpp"
#include "../core/shape_text.hpp"
#include "../memory/context.hpp"
#include "../tensor/creation.hpp"
#include "../tensor/tensor.hpp"

namespace gradus {

/// The structs of DLPack 1.1, with the layout and the members of its C header. The functions below take that header's
/// structs, too.
namespace dlpack {

struct version_number {
  std::uint32_t major, minor;
};
struct device {
  std::int32_t device_type, device_id;
};
struct data_type {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct tensor {
  void* data;
  dlpack::device device;
  std::int32_t ndim;
  data_type dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};
/// The form before 1.0, a Python capsule named "dltensor".
struct managed_tensor {
  tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(managed_tensor*);
};
/// The form since 1.0, a Python capsule named "dltensor_versioned".
struct managed_tensor_versioned {
  version_number version;
  void* manager_ctx;
  void (*deleter)(managed_tensor_versioned*);
  std::uint64_t flags;
  tensor dl_tensor;
};
static_assert(sizeof(tensor) == 48 && sizeof(managed_tensor) == 64 && sizeof(managed_tensor_versioned) == 80);

}  // namespace dlpack

namespace detail {

enum dlpack_device { dlpack_cpu = 1, dlpack_cuda = 2, dlpack_cuda_host = 3, dlpack_cuda_managed = 13 };

template <class T>
constexpr dlpack::data_type dlpack_type() {
  constexpr std::uint8_t integer = 0, natural = 1, real = 2, brain = 4, truth = 6;
  constexpr std::uint8_t code = std::is_same_v<T, bool>   ? truth
                                : std::is_same_v<T, bf16> ? brain
                                : is_floating<T>          ? real
                                : std::is_unsigned_v<T>   ? natural
                                                          : integer;
  return {code, static_cast<std::uint8_t>(8 * sizeof(T)), 1};
}
inline std::string dlpack_type_text(unsigned code, unsigned bits, unsigned lanes) {
  const char* const names[] = {"i", "u", "f", "opaque ", "bf", "complex ", "bool"};
  if (lanes != 1) return "vectors of " + std::to_string(lanes) + " elements";
  std::string name = code < std::size(names) ? names[code] : "type " + std::to_string(code) + " of bits ";
  return code == 6 ? name : name + std::to_string(bits);
}
inline std::string dlpack_device_text(int type, int id) {
  if (type == dlpack_cpu) return "the CPU";
  if (type == dlpack_cuda) return "GPU " + std::to_string(id);
  return "DLPack's device " + std::to_string(type) + ":" + std::to_string(id);
}
template <class D>
int dlpack_device_of(const context<D>& ctx) {
  if constexpr (D::host_addressable) return 0;
  else return ctx.stream().device().number;
}

// What a DLPack tensor of `x` refers to.
template <class Managed, class T, class Shape, class D>
struct dlpack_export {
  Managed managed{};
  tensor<T, Shape, D> x;
  std::array<std::int64_t, Shape::rank + 1> shape{}, strides{};
};

template <class DLTensor>
[[noreturn]] void fail_dlpack_shape(const std::string& name, const char* what, const DLTensor& t,
                                    const std::int64_t* values, const char* advice) {
  std::string text = name + ": " + what + " [";
  for (int a = 0; a < t.ndim; ++a) text += (a == 0 ? "" : ", ") + std::to_string(values[a]);
  throw error(text + "]" + advice);
}
// Throws error unless `t` can be a tensor<T, Shape> in ctx.
template <class T, class Shape, class D, class DLTensor>
void check_dlpack(const context<D>& ctx, const DLTensor& t) {
  const std::string name = "from_dlpack<" + std::string(dtype_name<T>()) + ", " + shape_text<Shape>() + ">";
  constexpr dlpack::data_type wanted = dlpack_type<T>();
  if (t.dtype.code != wanted.code || t.dtype.bits != wanted.bits || t.dtype.lanes != 1)
    throw error(name + ": the elements are " + dlpack_type_text(t.dtype.code, t.dtype.bits, t.dtype.lanes));
  bool same = t.ndim == static_cast<int>(Shape::rank);
  for (std::size_t a = 0; same && a < Shape::rank; ++a)
    same = t.shape[a] == static_cast<std::int64_t>(Shape::extents[a]);
  if (!same) fail_dlpack_shape(name, "the shape is", t, t.shape, "");
  std::int64_t stride = 1;
  for (std::size_t a = Shape::rank; t.strides != nullptr && a-- > 0; stride *= t.shape[a])
    if (t.shape[a] != 1 && t.strides[a] != stride)
      fail_dlpack_shape(name, "the strides are", t, t.strides, "; make it contiguous (row-major) first");
  const int type = static_cast<int>(t.device.device_type), id = t.device.device_id;
  const bool readable = D::host_addressable
                            ? type == dlpack_cpu || type == dlpack_cuda_host
                            : type == dlpack_cuda_managed || (type == dlpack_cuda && id == dlpack_device_of(ctx));
  if (!readable)
    throw error(name + ": the tensor is on " + dlpack_device_text(type, id) + ", the context on " +
                dlpack_device_text(D::host_addressable ? dlpack_cpu : dlpack_cuda, dlpack_device_of(ctx)));
}

}  // namespace detail

/// A DLPack tensor that shares the elements of x and keeps them alive until its deleter is called: once, by the thread
/// that uses x's context, which must exist until then. On a GPU, work on x may still be in the context's stream: the
/// other library works in that stream, waits for it, or synchronize() is called before.
/// @tparam Managed `dlpack::managed_tensor_versioned`, `dlpack::managed_tensor`, or the types of DLPack's header
template <class Managed = dlpack::managed_tensor_versioned, class T, class Shape, class D>
Managed* to_dlpack(tensor<T, Shape, D> x) {
  x.check_present();
  using holder = detail::dlpack_export<Managed, T, Shape, D>;
  auto* const all = new holder{.x = std::move(x)};
  auto& t = all->managed.dl_tensor;
  std::int64_t stride = 1;
  for (std::size_t a = Shape::rank; a-- > 0; stride *= all->shape[a]) {
    all->shape[a] = static_cast<std::int64_t>(all->x.extents().extents[a]);
    all->strides[a] = stride;
  }
  constexpr dlpack::data_type type = detail::dlpack_type<T>();
  constexpr auto device = D::host_addressable ? detail::dlpack_cpu : detail::dlpack_cuda;
  t.data = all->x.data();
  t.device.device_type = static_cast<decltype(t.device.device_type)>(device);
  t.device.device_id = detail::dlpack_device_of(all->x.owner());
  t.ndim = static_cast<std::int32_t>(Shape::rank);
  t.dtype.code = type.code;
  t.dtype.bits = type.bits;
  t.dtype.lanes = type.lanes;
  t.shape = all->shape.data();
  t.strides = all->strides.data();
  all->managed.manager_ctx = all;
  all->managed.deleter = [](Managed* self) { delete static_cast<holder*>(self->manager_ctx); };
  if constexpr (requires { all->managed.version; }) all->managed.version = {1, 1};
  return &all->managed;
}

/// The elements of a DLPack tensor as a tensor of `ctx`, without a copy. Takes the DLPack tensor over: its deleter is
/// called when the last tensor that shares the elements ends, after the host has waited for the context's stream. Its
/// producer must have put its work into that stream, or be done with it. Throws error, and takes nothing over, if the
/// type, the shape, the device or the version differ, if the elements are not row-major without gaps, or if their
/// address is not a multiple of D::alignment. Do not write to the elements if the producer calls them read-only.
template <class T, class Shape, class D, class Managed>
tensor<T, Shape, D> from_dlpack(context<D>& ctx, Managed* managed) {
  static_assert(detail::extents_are_in_the_type<Shape>,
                "from_dlpack<T, Shape>(ctx, managed): a bounded tensor has memory for the largest extents; copy it");
  if constexpr (requires { managed->version; })
    if (managed->version.major != 1)
      throw error("from_dlpack: version " + std::to_string(managed->version.major) + " of DLPack is not known");
  const auto& t = managed->dl_tensor;
  detail::check_dlpack<T, Shape>(ctx, t);
  auto* const first = reinterpret_cast<T*>(static_cast<std::byte*>(t.data) + t.byte_offset);
  const auto end = [](void* argument) {
    auto* const over = static_cast<Managed*>(argument);
    if (over->deleter != nullptr) over->deleter(over);
  };
  return borrow<T, Shape>(ctx, first, end, managed);
}

}  // namespace gradus
