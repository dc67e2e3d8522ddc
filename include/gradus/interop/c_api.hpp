#pragma once
// A model and its training as C functions, for programs in other languages. Not part of gradus.hpp: unless it is
// compiled separately it includes nlohmann/json.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../autodiff/backward.hpp"
#include "../autodiff/tape.hpp"
#include "../core/config.hpp"
#include "../core/device.hpp"
#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../core/shape.hpp"
#include "../cpu/access.hpp"
#include "../memory/accounting.hpp"
#include "../memory/context.hpp"
#include "../memory/memory_plan.hpp"
#include "../memory/planned_resource.hpp"
#include "../memory/resource.hpp"
#include "../memory/stream.hpp"
#include "../memory/trace.hpp"
#include "../plan/placement.hpp"
#include "../run/checkpoint.hpp"
#include "../tensor/creation.hpp"
#include "c_api.h"

namespace gradus {

namespace detail {

/// The text of a failure, for a caller in C.
struct c_error {
  char text[512] = "";

  /// Describes the exception being handled.
  void take(const char* function) noexcept;
};
template <class F>
int c_status(const char* function, c_error& on_failure, const F& f) noexcept {
  try {
    f();
    return 0;
  } catch (...) { on_failure.take(function); }
  return 1;
}

/// Memory that somebody else owns, handed out from its beginning on. What was handed out last is free again when it is
/// freed, and everything is when all of it is.
class lent_memory final : public memory_resource {
 public:
  /// `begin` is aligned to memory_request::alignment.
  lent_memory(std::byte* begin, std::size_t bytes) : begin_(begin), top_(begin), end_(begin + bytes) {}

  std::byte* end() const { return end_; }

 private:
  void* do_allocate(const memory_request& request, stream&) override;
  void do_deallocate(void* memory, const memory_request& request, stream&) noexcept override;

  std::byte *begin_, *top_, *end_;
  std::size_t live_ = 0;  // blocks
};

// Throw error unless the arguments of a call are what they must be.
void check_c_handle(const void* handle, bool is_of_the_model);
void check_c_memory(std::size_t given, std::size_t needed);
void check_c_batch(const void* inputs, const void* results, const char* name_of_results, std::size_t count,
                   index_t most, bool takes_fewer);
void check_c_learning_rate(double learning_rate);
[[noreturn]] void refuse_c_loss(double loss);
std::string checked_c_path(const char* path);

// Whether axis 0 of both numbers the examples, and no other axis is upto<N>.
template <class Inputs, class Targets>
inline constexpr bool are_a_batch =
    Inputs::in_type[0] == Targets::in_type[0] && Inputs::bounded_axes == index_t{is_bounded(Inputs::in_type[0])} &&
    Targets::bounded_axes == Inputs::bounded_axes;

constexpr auto outputs_of(const auto& training, const auto& x) {
  if constexpr (requires { training.predict(x); }) return training.predict(x);
  else return training.model(x);
}

/// The steps of a training, on any device.
template <template <class> class Training, class D>
class c_program {
 public:
  using input = typename Training<D>::input;
  using target = typename Training<D>::target;
  static_assert(are_a_batch<typename input::shape, typename target::shape>,
                "GRADUS_C_API: axis 0 of input and target is the same N or upto<N>, the examples; no other is upto<N>");
  using output_value = typename decltype(outputs_of(std::declval<Training<D>&>(), std::declval<input&>()))::value_type;

  constexpr c_program(context<D>& persistent, context<D>& transient)
      : persistent_(&persistent), transient_(&transient), tape_(transient) {
    begin(0);
  }
  /// A new model, whose optimizer has taken no step.
  [[gnu::cold]] constexpr void begin(std::uint64_t seed) {
    training_.reset();  // before there is a new one, which has the same memory
    training_.emplace();
    training_->init(*persistent_, seed);
    set_random(seed);
  }
  /// Random draws of the next step: those that a run of this seed has after as many steps.
  constexpr void set_random(std::uint64_t seed) {
    tape_.set_random(seed, static_cast<std::uint32_t>(training_->optimizer.calls()));
  }
  constexpr double step(const typename input::value_type* x, const typename target::value_type* y, index_t count,
                        double learning_rate) {
    Training<D>& t = *training_;
    double cost = 0;
    try {
      auto inputs = given<input>(x, count);
      const auto targets = given<target>(y, count);
      const auto loss = t.loss(tape_.watch(std::move(inputs)), targets);
      cost = static_cast<double>(gradus::item(loss.value()));
      if (x != nullptr && cost - cost != 0) refuse_c_loss(cost);  // of zeros it may be anything
      backward(loss);
    } catch (...) {
      tape_.clear();
      t.optimizer.clear_gradients();
      throw;
    }
    t.optimizer.options.lr = learning_rate;
    t.optimizer.step(*persistent_);
    return cost;
  }
  constexpr void predict(const typename input::value_type* x, index_t count, output_value* to) {
    const auto y = outputs_of(*training_, given<input>(x, count));
    if (to != nullptr) device_access<D>::download(*transient_, to, y.data(), y.extents().size * sizeof(output_value));
  }
  constexpr Training<D>& training() { return *training_; }

 private:
  // A batch of `count` examples: these values, or zeros.
  template <class Tensor>
  constexpr Tensor given(const typename Tensor::value_type* values, index_t count) {
    using T = typename Tensor::value_type;
    using S = typename Tensor::shape;
    extents_of<S> extents;
    if constexpr (S::bounded) extents = count;
    // Not a conditional expression: g++ 12 destroys its temporaries twice in a constant expression.
    if (values == nullptr) return zeros<T, S>(*transient_, extents, category::input);
    return from_host<T, S>(*transient_, values, extents, category::input);
  }

  context<D>*persistent_, *transient_;
  tape<D> tape_;
  std::optional<Training<D>> training_;
};

/// The memory of a training and its two plans, a step's and a prediction's.
struct c_memory {
  std::size_t persistent = 0;
  memory_plan step, prediction;
};

template <template <class> class Training>
constexpr c_memory c_memory_of() {
  using program = c_program<Training, meta>;
  constexpr index_t most = program::input::shape::extents[0];
  meta_stream stream;
  accounting kept, used;
  context<meta> persistent{stream, kept}, transient{stream, used};
  step_trace life, step, prediction;
  kept.start(life);
  {
    program p(persistent, transient);
    p.step(nullptr, nullptr, most, 0);  // makes the optimizer's states
    used.start(step);
    p.step(nullptr, nullptr, most, 0);
    used.finish();
    used.start(prediction);
    p.predict(nullptr, most, nullptr);
    used.finish();
  }
  kept.finish();
  c_memory memory;
  for (const block_life& b : life.blocks) memory.persistent += round_up(b.bytes, cpu::alignment);
  memory.step = make_plan(step, place(step, 0, 0));
  memory.prediction = make_plan(prediction, place(prediction, 0, 0));
  return memory;
}

/// What c_memory_of() finds, as a constant of the program.
template <template <class> class Training>
class c_constants {
  template <std::size_t Allocations, std::size_t Events>
  struct plan {
    std::array<planned_allocation, Allocations> allocations;
    std::array<planned_event, Events> events;

    constexpr explicit plan(const memory_plan& from) {
      std::copy(from.allocations.begin(), from.allocations.end(), allocations.begin());
      std::copy(from.events.begin(), from.events.end(), events.begin());
    }
    memory_plan copy() const {
      return {{allocations.begin(), allocations.end()}, {events.begin(), events.end()}, memory.workspace};
    }
  };
  struct sizes {
    std::size_t persistent, workspace, step_allocations, step_events, allocations, events;
  };
  static constexpr sizes memory = [] {
    const c_memory m = c_memory_of<Training>();
    return sizes{m.persistent,
                 std::max(m.step.bytes, m.prediction.bytes),
                 m.step.allocations.size(),
                 m.step.events.size(),
                 m.prediction.allocations.size(),
                 m.prediction.events.size()};
  }();
  static constexpr auto tables = [] {
    const c_memory m = c_memory_of<Training>();
    return std::pair{plan<memory.step_allocations, memory.step_events>(m.step),
                     plan<memory.allocations, memory.events>(m.prediction)};
  }();

 public:
  static constexpr std::size_t persistent = memory.persistent, workspace = memory.workspace;
  static std::vector<memory_plan> plans() { return {tables.first.copy(), tables.second.copy()}; }
};

}  // namespace detail

/// A model in training, as C functions use it, in one block of memory.
/// @tparam Training of a device D. It has the types `input` and `target`, tensors on D whose axis 0 numbers the
///         examples, N or upto<N>; `model`; `optimizer`, made of it; `init(context<D>&, std::uint64_t seed)`;
///         `loss(inputs, targets)`; and, unless it is model(inputs), `predict(inputs)`. All are constexpr.
template <template <class> class Training>
class c_handle {
  using constants = detail::c_constants<Training>;
  using program = detail::c_program<Training, cpu>;
  using batch = typename program::input::shape;
  static constexpr std::size_t alignment = memory_request::alignment;

 public:
  using input_value = typename program::input::value_type;
  using target_value = typename program::target::value_type;
  using output_value = typename program::output_value;

  /// Memory of a handle and of all that it allocates in its steps, wherever that begins.
  static constexpr std::size_t bytes() {
    return alignment - 1 + detail::round_up(sizeof(c_handle), alignment) + constants::persistent + constants::workspace;
  }
  c_handle(const c_handle&) = delete;
  c_handle& operator=(const c_handle&) = delete;

  void step(const input_value* inputs, const target_value* targets, std::size_t count, double learning_rate,
            double* loss) {
    detail::check_c_batch(inputs, targets, "targets", count, batch::extents[0], batch::bounded);
    detail::check_c_learning_rate(learning_rate);
    planned_.use(0);
    const double cost = program_.step(inputs, targets, count, learning_rate);
    if (loss != nullptr) *loss = cost;
  }
  void predict(const input_value* inputs, std::size_t count, output_value* outputs) {
    detail::check_c_batch(inputs, outputs, "outputs", count, batch::extents[0], batch::bounded);
    planned_.use(1);
    program_.predict(inputs, count, outputs);
  }
  [[gnu::cold]] void save(const char* path) {
    run_metadata about;
    about.set("seed", seed_);
    auto& t = program_.training();
    write_checkpoint(detail::checked_c_path(path), persistent_, t.model, t.optimizer, about);
  }
  [[gnu::cold]] void load(const char* path) {
    auto& t = program_.training();
    const run_metadata about = read_checkpoint(detail::checked_c_path(path), persistent_, t.model, t.optimizer);
    if (about.all().contains("seed")) seed_ = about.template number<std::uint64_t>("seed");
    program_.set_random(seed_);
  }

 protected:
  [[gnu::cold]] c_handle(std::uint64_t seed, std::byte* own)
      : seed_(seed),
        own_(own),
        values_(reinterpret_cast<std::byte*>(this) + detail::round_up(sizeof(c_handle), alignment),
                constants::persistent),
        workspace_(values_.end(), constants::workspace),
        planned_(constants::plans(), workspace_, stream_),
        persistent_{stream_, values_},
        transient_{stream_, planned_},
        program_(persistent_, transient_) {
    // A step and a prediction of zeros: whatever grows to the size of a step has grown before the first one.
    program_.step(nullptr, nullptr, batch::extents[0], 0);
    planned_.use(1);
    program_.predict(nullptr, batch::extents[0], nullptr);
    program_.begin(seed);
  }
  ~c_handle() { kind_ = nullptr; }

  /// NAME_init.
  template <class Handle>
  static Handle* make(const char* function, detail::c_error& last, std::uint64_t seed, void* memory,
                      std::size_t room) noexcept {
    Handle* made = nullptr;
    detail::c_status(function, last, [&] {
      std::unique_ptr<std::byte[]> own(memory == nullptr ? new (std::nothrow) std::byte[bytes()] : nullptr);
      if (memory != nullptr) detail::check_c_memory(room, bytes());
      else detail::check_c_memory(own == nullptr ? 0 : bytes(), bytes());
      const auto at = reinterpret_cast<std::uintptr_t>(memory == nullptr ? own.get() : memory);
      made = ::new (reinterpret_cast<void*>(detail::round_up(at, alignment))) Handle(seed, own.get());
      static_cast<void>(own.release());
    });
    return made;
  }
  /// NAME_free.
  template <class Handle>
  static void end(Handle* handle) noexcept {
    if (!is_valid(handle)) return;
    const std::unique_ptr<std::byte[]> own(handle->own_);
    handle->~Handle();
  }
  /// Calls f(handle), and returns the status.
  template <class Handle, class F>
  static int call(const char* function, detail::c_error& last, Handle* handle, const F& f) noexcept {
    const bool valid = is_valid(handle);
    return detail::c_status(function, valid ? handle->error_ : last, [&] {
      detail::check_c_handle(handle, valid);
      f(*handle);
    });
  }
  static const char* error_of(const c_handle* handle, const detail::c_error& last) {
    return is_valid(handle) ? handle->error_.text : last.text;
  }

 private:
  static constexpr char kind = 0;  // whose address marks handles of this model
  static bool is_valid(const c_handle* handle) {
    return handle != nullptr && reinterpret_cast<std::uintptr_t>(handle) % alignment == 0 && handle->kind_ == &kind;
  }

  const void* volatile kind_ = &kind;  // volatile, because nothing reads the null of a freed handle but is_valid()
  detail::c_error error_;
  std::uint64_t seed_;
  std::byte* own_;  // the memory that this lies in, unless that is the caller's
  stream stream_;
  detail::lent_memory values_, workspace_;
  planned_resource planned_;
  context<cpu> persistent_, transient_;
  program program_;
};

}  // namespace gradus

/// Defines the functions of GRADUS_C_API_DECLARE(name, ...), which must have declared the types of this Training, a
/// template that gradus::c_handle describes: `GRADUS_C_API(digits, digits_training);`, once, in no namespace.
#define GRADUS_C_API(name, Training)                                                                                   \
  struct name##_handle final : gradus::c_handle<Training> {                                                            \
    using c_handle::c_handle, c_handle::make, c_handle::end, c_handle::call, c_handle::error_of;                       \
  };                                                                                                                   \
  namespace {                                                                                                          \
  constinit thread_local gradus::detail::c_error name##_last_error;                                                    \
  }                                                                                                                    \
  std::size_t name##_bytes() { return name##_handle::bytes(); }                                                        \
  name##_handle* name##_init(std::uint64_t seed, void* memory, std::size_t bytes) {                                    \
    return name##_handle::make<name##_handle>(#name "_init", name##_last_error, seed, memory, bytes);                  \
  }                                                                                                                    \
  int name##_step(name##_handle* handle, const name##_handle::input_value* inputs,                                     \
                  const name##_handle::target_value* targets, std::size_t count, double learning_rate, double* loss) { \
    return name##_handle::call(#name "_step", name##_last_error, handle,                                               \
                               [&](name##_handle& h) { h.step(inputs, targets, count, learning_rate, loss); });        \
  }                                                                                                                    \
  int name##_predict(name##_handle* handle, const name##_handle::input_value* inputs, std::size_t count,               \
                     name##_handle::output_value* outputs) {                                                           \
    return name##_handle::call(#name "_predict", name##_last_error, handle,                                            \
                               [&](name##_handle& h) { h.predict(inputs, count, outputs); });                          \
  }                                                                                                                    \
  int name##_save(name##_handle* handle, const char* path) {                                                           \
    return name##_handle::call(#name "_save", name##_last_error, handle, [&](name##_handle& h) { h.save(path); });     \
  }                                                                                                                    \
  int name##_load(name##_handle* handle, const char* path) {                                                           \
    return name##_handle::call(#name "_load", name##_last_error, handle, [&](name##_handle& h) { h.load(path); });     \
  }                                                                                                                    \
  void name##_free(name##_handle* handle) { name##_handle::end(handle); }                                              \
  const char* name##_error(const name##_handle* handle) { return name##_handle::error_of(handle, name##_last_error); } \
  static_assert(true, "")

#ifndef GRADUS_COMPILED
#include "c_api.ipp"
#endif
