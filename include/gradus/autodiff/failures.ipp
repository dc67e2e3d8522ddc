#pragma once
// The messages of failures.hpp.

#include "../core/error.hpp"
#include "../core/shape_text.hpp"
#include "failures.hpp"

namespace gradus::detail {

GRADUS_IMPL std::string operand_text(std::string_view call, std::size_t operand) {
  return std::string(call) + ": operand " + std::to_string(operand);
}

GRADUS_IMPL void fail_second_order(std::string_view call, std::size_t operand) {
  throw error(operand_text(call, operand) +
              " is a gradient or was computed from one, and second derivatives are not supported; to use it as a "
              "constant, pass gradus::detach(x); for derivatives in a loss, see docs/guide/derivatives.md");
}

GRADUS_IMPL void fail_unrecorded_parameter(std::string_view call, std::size_t operand) {
  throw error(
      operand_text(call, operand) +
      " was computed from parameters outside the recording, so they would get no gradient through it; record its "
      "input with tape.watch(input), or, if it has no other inputs than parameters, begin with "
      "gradus::watch(parameter, x), where x is recorded; to use it as a constant, pass gradus::detach(it)");
}

GRADUS_IMPL void fail_two_tapes() {
  throw error("apply: the operands were recorded on two different tapes; use one tape");
}

GRADUS_IMPL void fail_ended_recording() {
  throw error(
      "this value is from a recording that has ended (backward(), clear() or the tape's destructor); recompute it");
}

GRADUS_IMPL void fail_no_variable() {
  throw error("x.gradient(): x must come from tape.variable() in the tape's current recording");
}

GRADUS_IMPL void fail_no_parameter_value() {
  throw error("a parameter or state has no value yet: call gradus::init(model, context, rule) before using the model");
}

GRADUS_IMPL void fail_changed_parameter(std::string_view op) {
  throw error("backward: a parameter or state of " + std::string(op) +
              " was changed since the recording, so its gradient would be wrong; change it after backward()");
}

GRADUS_IMPL void fail_other_thread(std::string_view op) {
  throw error(
      std::string(op) +
      ": all operands are parameters, so this would run in their context, which another thread uses; begin with "
      "gradus::watch(parameter, x), where x belongs to a context of this thread");
}

GRADUS_IMPL void fail_uninitialised(std::string_view op, std::size_t operand, const index_t* extents, index_t rank) {
  throw error(operand_text(op, operand) + ", a parameter or state of " + text_of_extents(extents, rank) +
              ", has no value yet; call gradus::init(model, context, rule) first");
}

GRADUS_IMPL void fail_custom_gradient(const std::string& gradient, const std::string& operand) {
  throw error("custom_op(forward, backward, x...): backward returned a gradient of " + gradient +
              " for an operand of " + operand + "; they must be equal");
}

GRADUS_IMPL void fail_different_region() {
  throw error(
      "checkpoint: at backward the region applied other operations or read other parameters or states than in forward; "
      "its function must depend only on its arguments, and neither may change before backward()");
}

GRADUS_IMPL void fail_chain_depth() {
  throw error("chain(blocks, x, schedule, f): the schedule nests regions deeper than region_schedule::max_depth");
}

GRADUS_IMPL void fail_chain_cover(std::size_t blocks) {
  throw error("chain(blocks, x, schedule, f): the schedule's parts do not cover the chain's " + std::to_string(blocks) +
              " blocks in order; it was made for another model");
}

}  // namespace gradus::detail
