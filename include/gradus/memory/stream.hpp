#pragma once

namespace gradus {

/// A sequence of work on the CPU. Work is done as it is submitted, so there is nothing to wait for.
class stream {
 public:
  stream() = default;
  stream(int) = delete;  // a device or a handle is not a stream
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  /// Returns when all submitted work is done: at once.
  void synchronize() const {}
};

/// The stream of the accounting device.
class meta_stream {
 public:
  constexpr meta_stream() = default;
  constexpr void synchronize() const {}
};

}  // namespace gradus
