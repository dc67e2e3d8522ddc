#pragma once
// Trainable parameters of models.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../core/shape_algebra.hpp"
#include "../precision/policy.hpp"
#include "creation.hpp"
#include "gradient_slot.hpp"
#include "tensor.hpp"
#include "touched_rows.hpp"

namespace gradus {

/// How a parameter is initialised: randomly, or with a constant. `by_inputs`: normal draws with the deviation 1 /
/// sqrt(fan_in), whatever the initialiser says.
enum class start { drawn, zeros, ones, by_inputs };

/// The inputs that an output sums and the outputs that an input reaches, from which initialisers take the deviation.
struct fans {
  index_t in, out;
};

/// A parameter as optimizers see it: the elements of its value and gradient, without its shape.
/// @tparam T type of values
/// @tparam G type of gradients
template <class T, class G, class D>
class param_base {
 public:
  using value_type = T;
  using gradient_value_type = G;
  using device = D;
  virtual constexpr index_t size() const = 0;
  virtual constexpr index_t rank() const = 0;
  virtual constexpr index_t extent(index_t axis) const = 0;
  /// True for weights, false for biases; see gradus::is_matrix.
  virtual constexpr bool is_matrix() const = 0;
  /// Elements of the value for writing, on device D: counts as a change. Null on `meta` and before initialisation.
  virtual constexpr T* edit_data() = 0;
  /// Elements of the gradient; null on `meta` or if has_gradient() is false.
  virtual constexpr const G* gradient_data() const = 0;
  virtual constexpr bool has_gradient() const = 0;
  /// Clears the gradient and frees its memory.
  virtual constexpr void clear_gradient() const = 0;
  /// Tracks the rows of the gradient from now on, if this is a whole matrix: see gradient_slot::track. On the CPU.
  virtual constexpr void track_rows() {}
  /// The rows that the gradient has, if they are tracked; or null.
  virtual constexpr touched_rows* rows() const { return nullptr; }
  /// The buffer of the value; empty if there is none.
  virtual constexpr buffer<D> storage() const = 0;
  /// Makes the elements in `storage` the value, such as a part of a larger buffer; an empty buffer: there is none.
  virtual constexpr void set_storage(buffer<D> storage) = 0;
  /// Counts a change of the value that was made elsewhere.
  virtual constexpr void mark_changed() = 0;
  /// Frees the memory of the copy in the policy's compute type, if the value is in a paged buffer. Its next use makes
  /// it again.
  virtual constexpr void evict_computed() const = 0;

 protected:
  constexpr param_base() = default;
  constexpr ~param_base() = default;  // never deleted through the base
  constexpr param_base(const param_base&) = default;
  constexpr param_base& operator=(const param_base&) = default;
};

namespace detail {
template <class TensorOfParameter, class Value>
inline constexpr bool parameter_takes = std::is_same_v<TensorOfParameter, Value>;
}  // namespace detail

/// A trainable tensor: a value, and a slot for its gradient. Parameters belong to no tape; a const model receives
/// gradients, too, because they are behind a pointer. Using a moved-from parameter throws error.
/// @tparam X       gradus::on<device, precision>: its device, and its types of storage and computation
/// @tparam Extents its shape
template <class X, index_t... Extents>
class param final : public param_base<typename X::store, typename X::gradient, typename X::device> {
 public:
  using policy = X;
  using shape = gradus::shape<Extents...>;
  static_assert(!shape::bounded, "param<X, extents...>: the extents of a parameter are numbers, not upto<N>");
  using device = typename X::device;
  using tensor_type = tensor<typename X::store, shape, device>;
  using gradient_type = tensor<typename X::gradient, shape, device>;
  using compute_tensor = tensor<typename X::compute, shape, device>;
  using value_type = typename tensor_type::value_type;
  using gradient_value_type = typename gradient_type::value_type;
  static constexpr category memory_category = category::parameter;
  static constexpr bool trains = X::precision::trains;  ///< false: it is frozen for good

  /// Matrices start random, vectors (biases) at zero; see is_matrix.
  constexpr param() : param(gradus::is_matrix({Extents...}) ? start::drawn : start::zeros) {}
  /// A parameter with another start; `scale` multiplies random values. Without fans, it has the fans of a matrix: the
  /// product of all extents but the last, and the last.
  constexpr explicit param(start from, double scale = 1, fans drawn_by = {rows_of<shape>, columns_of<shape>})
      : known_(new bookkeeping), start_(from), scale_(scale), fans_(drawn_by) {}
  constexpr param(param&& other) noexcept
      : value_(std::move(other.value_)),
        known_(std::exchange(other.known_, nullptr)),
        start_(other.start_),
        scale_(other.scale_),
        fans_(other.fans_) {}
  constexpr param& operator=(param&& other) noexcept {
    std::swap(value_, other.value_);
    std::swap(known_, other.known_);
    std::swap(start_, other.start_);
    std::swap(scale_, other.scale_);
    std::swap(fans_, other.fans_);
    return *this;
  }
  // The compiler prints this line.
  param(const param&) = delete;  // a model is not copied: pass a reference, or gradus::copy(from, to) its values
  param& operator=(const param&) = delete;
  constexpr ~param() { delete known_; }

  /// The value; empty until the model is initialised. Optimizers and copy(from, to) write in its memory, so a handle
  /// that is kept changes with it; clone() keeps the values.
  constexpr const tensor_type& value() const { return value_; }
  /// The value for writing: counts as a change. Recordings that used the old value can no longer run backward().
  constexpr tensor_type& edit() {
    ++known().version;
    return value_;
  }
  /// Replaces the value; copies it if others share it, because optimizers write in place.
  constexpr void set(tensor_type value) {
    if (value && !value.storage().sole()) value = clone(value, memory_category);
    value.storage().mark(origin::any);
    edit() = std::move(value);
  }
  template <class T, class S, class D>
    requires(!std::is_same_v<tensor<T, S, D>, tensor_type>)
  constexpr void set(const tensor<T, S, D>&) {
    static_assert(detail::parameter_takes<tensor_type, tensor<T, S, D>>,
                  "param.set(value): the value must have the parameter's element type, shape and device");
  }
  /// Number of changes of the value; see edit().
  constexpr const std::uint64_t& version() const { return known().version; }
  constexpr buffer<device> storage() const override { return value_.storage(); }
  constexpr void set_storage(buffer<device> storage) override { edit() = tensor_type(std::move(storage)); }
  constexpr void mark_changed() override { ++known().version; }
  /// The value in the policy's compute type. A copy in another type is cached, and made again after a change. If the
  /// value is in a paged buffer (see parameter_residency), the copy's is paged, too.
  GRADUS_OF_BUILD constexpr const compute_tensor& computed() const {
    if constexpr (std::is_same_v<tensor_type, compute_tensor>) {
      return value_;
    } else {
      auto& ctx = value_.owner();
      const typename context<device>::exclusive alone(ctx);
      cast_copy& copy = known().cast;
      if (!copy.value || copy.version != known().version) {
        if (value_.storage().is_paged()) {
          copy.page_from(value_, &fill_copy);
        } else {
          if (!copy.value.unique() || copy.value.storage().is_paged())
            copy.value = compute_tensor(ctx, memory_category);
          fill_copy(copy.value, value_);
        }
        copy.version = known().version;
      }
      return copy.value;
    }
  }
  constexpr void evict_computed() const override {
    if constexpr (!std::is_same_v<tensor_type, compute_tensor>)
      if (known().cast.value.storage().is_paged()) known().cast.value.storage().evict();
  }
  /// The accumulated gradient; empty if there is none.
  constexpr const gradient_type& gradient() const { return slot().marked(); }
  constexpr gradient_slot<gradient_type>& slot() const {
    if constexpr (shape::rank == 2)
      if (known().begins_rows && value_) begin_rows();
    return known().slot;
  }
  /// Clears the gradient and frees its memory.
  constexpr void clear_gradient() const override { slot().clear(); }
  constexpr void track_rows() override {
    if constexpr (device::computes && !device::host_addressable) {
      detail::fail_rows_on_this_device();
    } else {
      known().begins_rows = known().slot.rows() == nullptr;
    }
  }
  constexpr touched_rows* rows() const override { return slot().rows(); }

  /// A frozen parameter gets no gradient: recordings take it for a constant, and optimizers leave it as it is, without
  /// weight decay. Freezing clears its gradient, and so does the end of it: a recording from before may have filled the
  /// slot in between. It affects operations recorded later.
  constexpr void freeze(bool frozen = true) {
    if (frozen || known().frozen) slot().clear();
    known().frozen = frozen;
  }
  /// True after freeze(), until freeze(false); always with a frozen policy.
  constexpr bool is_frozen() const { return !trains || known().frozen; }

  constexpr start starts() const { return start_; }
  constexpr double start_scale() const { return scale_; }
  constexpr fans start_fans() const { return fans_; }

  constexpr index_t size() const override { return shape::size; }
  constexpr index_t rank() const override { return shape::rank; }
  constexpr index_t extent(index_t axis) const override {
    constexpr index_t all[] = {Extents..., 1};
    return all[axis];
  }
  constexpr bool is_matrix() const override { return gradus::is_matrix({Extents...}); }
  constexpr value_type* edit_data() override { return value_ ? edit().data() : nullptr; }
  constexpr const gradient_value_type* gradient_data() const override {
    return has_gradient() ? slot().value().data() : nullptr;
  }
  /// False while it is frozen, even if a recording from before has filled its slot.
  constexpr bool has_gradient() const override { return slot().value() && !is_frozen(); }

 private:
  // The gradient's memory lasts, so it comes from where the value's does.
  constexpr void begin_rows() const {
    known().begins_rows = false;
    known().rows.set_extents(shape::extent(0), shape::extent(1));
    known().slot.track(known().rows, zeros<gradient_value_type, shape>(value_.owner(), category::gradient));
  }
  // The copy in the compute type. If it is paged, it is filled from `source` when it is used and not resident.
  struct cast_copy final : pager {
    using filler = void (*)(compute_tensor&, const tensor_type&);
    compute_tensor value;
    std::uint64_t version = 0;
    tensor_type source;
    filler fill = nullptr;  // not virtual, because it depends on the build

    constexpr void page_from(const tensor_type& from, filler how) {
      source = from;
      fill = how;
      if (!value.storage().is_paged())
        value = compute_tensor(buffer<device>::paged(from.owner(), compute_tensor::bytes, memory_category, this));
      value.storage().evict();
    }
    constexpr void use(std::size_t) override {
      source.storage().use();  // it is used by way of the copy
      if (value.storage().is_resident()) return;
      static_cast<void>(value.storage().restore());
      fill(value, source);
    }
  };
  GRADUS_OF_BUILD static constexpr void fill_copy(compute_tensor& copy, const tensor_type& value) {
    auto& ctx = value.owner();
    const typename context<device>::running now(
        ctx, activity{"cast", ctx.current().phase, {0, tensor_type::bytes, compute_tensor::bytes}});
    kernel<op::convert, device>::forward(ctx, copy.data(), value.data(), shape::size, false);
  }
  struct no_copy {};
  struct bookkeeping {
    gradient_slot<gradient_type> slot;
    touched_rows rows;
    bool begins_rows = false;  // at the next use of the slot that finds a value
    std::uint64_t version = 0;
    bool frozen = false;
    [[no_unique_address]] std::conditional_t<std::is_same_v<tensor_type, compute_tensor>, no_copy, cast_copy> cast;
  };
  constexpr bookkeeping& known() const {
    if (known_ == nullptr) fail_moved();
    return *known_;
  }
  [[noreturn]] static void fail_moved() {
    throw error("this parameter was moved from; use the one that it was moved to");
  }

  tensor_type value_;
  bookkeeping* known_;
  start start_;
  double scale_;
  fans fans_;
};

template <class X>
inline constexpr bool is_param = false;
template <class X, index_t... E>
inline constexpr bool is_param<param<X, E...>> = true;

}  // namespace gradus
