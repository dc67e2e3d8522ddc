#pragma once
// Tensors of a model that are not trained: running statistics, counters, codebooks.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "creation.hpp"
#include "param.hpp"
#include "tensor.hpp"

namespace gradus {

/// The type argument of a state that no training changes, such as a weight in 8 bits. Its elements have any type, and
/// checkpoints of a training leave it out.
template <class Device, class T>
struct constants {
  using device = Device;
  using store = T;
  static constexpr bool is_constant = true;
};

/// A tensor that belongs to a model but is not trained, such as a running mean. It is in model files, checkpoints and
/// memory plans like a parameter, and has no gradient: operations read it as a constant, and optimizers, clipping and
/// weight averages leave it alone. update() writes it from forward of a const model, because the elements are behind a
/// pointer. Using a moved-from state throws error.
/// @tparam X       gradus::on<device, precision>; its elements have the type that X stores parameters in
/// @tparam Extents its shape
template <class X, index_t... Extents>
class state final {
 public:
  using shape = gradus::shape<Extents...>;
  static_assert(!shape::bounded, "state<X, extents...>: the extents of a state are numbers, not upto<N>");
  using device = typename X::device;
  using tensor_type = tensor<typename X::store, shape, device>;
  using value_type = typename tensor_type::value_type;
  static constexpr bool is_constant = requires { X::is_constant; };
  static constexpr category memory_category = is_constant ? category::parameter : category::state;

  /// Starts at zero.
  constexpr state() : state(start::zeros) {}
  /// A state with another start; `scale` multiplies random values.
  constexpr explicit state(start from, double scale = 1) : content_(new content), start_(from), scale_(scale) {}
  constexpr state(state&& other) noexcept
      : content_(std::exchange(other.content_, nullptr)), start_(other.start_), scale_(other.scale_) {}
  constexpr state& operator=(state&& other) noexcept {
    std::swap(content_, other.content_);
    std::swap(start_, other.start_);
    std::swap(scale_, other.scale_);
    return *this;
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  constexpr ~state() { delete content_; }

  /// The value; empty until the model is initialised.
  constexpr const tensor_type& value() const { return known().value; }
  /// The value for writing: counts as a change. Recordings that saved the old value can no longer run backward().
  constexpr tensor_type& edit() {
    ++known().version;
    return known().value;
  }
  /// Replaces the value; copies it if others share it, because update() writes in place.
  constexpr void set(tensor_type value) {
    if (value && !value.storage().sole()) value = clone(value, memory_category);
    value.storage().mark(origin::any);
    edit() = std::move(value);
  }
  /// Writes `value`, converted to the state's element type, in place, if x is recorded. If x is plain, as in inference,
  /// it does nothing; when a checkpoint region is replayed at backward, neither, so that each forward writes once.
  /// `value` is a tensor, a recorded value or a state of this shape. Gradients do not flow through it. Throws error if
  /// the state has no memory, or if a recording or a tensor shares its elements: it would change under them.
  template <class Operand, class Value>
  GRADUS_OF_BUILD constexpr void update(const Operand& x, const Value& value) const;
  /// Number of changes of the value; see edit() and update().
  constexpr const std::uint64_t& version() const { return known().version; }

  constexpr start starts() const { return start_; }
  constexpr double start_scale() const { return scale_; }
  constexpr index_t size() const { return shape::size; }

 private:
  struct content {
    tensor_type value;
    std::uint64_t version = 0;
  };
  constexpr content& known() const {
    if (content_ == nullptr) fail_moved();
    return *content_;
  }
  [[noreturn]] static void fail_moved() { throw error("this state was moved from; use the one that it was moved to"); }

  content* content_;
  start start_;
  double scale_;
};

template <class X>
inline constexpr bool is_state = false;
template <class X, index_t... E>
inline constexpr bool is_state<state<X, E...>> = true;

/// True for the tensors of models, parameters and states. They are persistent: their context is not a step's.
template <class X>
inline constexpr bool is_model_tensor = is_param<X> || is_state<X>;

}  // namespace gradus
