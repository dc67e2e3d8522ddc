#pragma once
// Ends a step at the first operation whose result is not finite.

#include <cstddef>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../memory/activity.hpp"

namespace gradus {

/// Finds the first operation, forward or backward, that computes a value that is not finite, and ends the step there:
/// `ctx.observe(&finder)`. It reads every result and every gradient that an operation contributed to. On the CPU.
class anomaly_finder final : public observer {
 public:
  /// Without `gradients` it reads forward only: with loss scaling, gradients of f16 may overflow.
  explicit anomaly_finder(bool gradients = true) : gradients_(gradients) {}
  /// The step that the message names, from 1; 0: none.
  std::size_t step = 0;

  void begin(const activity&) override {}
  void end(const activity&) override {}
  /// Throws gradus::error, which names the operation, the phase and the element.
  void computed(const activity& what, const computed_values& values) override;

  /// The error that computed() throws for a value that is not finite.
  struct found : error {
    using error::error;
  };

 private:
  [[noreturn]] void fail(const activity& what, const computed_values& values, std::size_t i, double value) const;

  bool gradients_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "anomaly.ipp"
#endif
