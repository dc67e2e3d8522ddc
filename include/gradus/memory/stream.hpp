#pragma once
// Streams: sequences of work, and the CPU's, whose work runs at once.

#include <concepts>
#include <cstddef>
#include <optional>

#include "../core/device.hpp"
#include "service_table.hpp"

namespace gradus {

/// A sequence of work that runs in order, as resources use it. An event marks a point in it: `record` puts it after the
/// work submitted so far, `done` asks whether that has run, `synchronize` makes the host wait for it, `wait` makes
/// another stream wait. An event never recorded is done. The destructor waits. Memory is aligned to `alignment` bytes.
template <class S>
concept event_stream = std::movable<typename S::event> && std::default_initializable<typename S::event> &&
                       requires(S& stream, typename S::event& mark, const typename S::event& marked) {
                         { S::alignment } -> std::convertible_to<std::size_t>;
                         { stream.record(mark) } noexcept;
                         stream.wait(marked);
                         stream.synchronize();
                         { marked.done() } -> std::same_as<bool>;
                         marked.synchronize();
                       };

/// An event of a stream whose work runs when submitted: always done.
struct done_event {
  constexpr bool done() const { return true; }
  constexpr void synchronize() const {}
};

/// A sequence of work on the CPU. Work runs when submitted, so nothing waits.
class stream {
 public:
  using event = done_event;
  static constexpr std::size_t alignment = cpu::alignment;
  static constexpr bool host_memory = true;  ///< the host can access the stream's memory

  stream() = default;
  stream(int) = delete;  // a device or a handle is not a stream
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  /// Returns when all submitted work is done: at once.
  void synchronize() const {}
  void record(event&) noexcept {}
  void wait(const event&) {}

  /// The object of type T that belongs to this stream, constructed from it at first use: the threads of parallel loops.
  template <class T>
  T& get() {
    return services_.template get<T>(*this);
  }

 private:
  detail::service_table services_;
};

namespace detail {
// Creates a stream for a resource's own work, on the device of `user`.
template <class Stream>
void make_beside(std::optional<Stream>& own, const Stream& user) {
  if (own) return;
  if constexpr (requires { Stream(user.device()); }) own.emplace(user.device());
  else own.emplace();
}
}  // namespace detail

/// The stream of the accounting devices.
class meta_stream {
 public:
  using event = done_event;
  static constexpr std::size_t alignment = meta::alignment;

  constexpr meta_stream() = default;
  constexpr void synchronize() const {}
  constexpr void record(event&) noexcept {}
  constexpr void wait(const event&) {}
};

static_assert(event_stream<stream> && event_stream<meta_stream>);

}  // namespace gradus
