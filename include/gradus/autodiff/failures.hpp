#pragma once
// The run-time errors of tapes and regions.

#include <cstddef>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/extent.hpp"

namespace gradus::detail {

// "add: operand 2"
std::string operand_text(std::string_view call, std::size_t operand);
[[noreturn]] void fail_second_order(std::string_view call, std::size_t operand);
[[noreturn]] void fail_unrecorded_parameter(std::string_view call, std::size_t operand);
[[noreturn]] void fail_two_tapes();
[[noreturn]] void fail_ended_recording();
[[noreturn]] void fail_no_variable();
[[noreturn]] void fail_no_parameter_value();
[[noreturn]] void fail_changed_parameter(std::string_view op);
[[noreturn]] void fail_other_thread(std::string_view op);
// The message names the parameter by its shape and its place among the operands.
[[noreturn]] void fail_uninitialised(std::string_view op, std::size_t operand, const index_t* extents, index_t rank);
// Of a custom_op, in the text of shapes.
[[noreturn]] void fail_custom_gradient(const std::string& gradient, const std::string& operand);
[[noreturn]] void fail_different_region();
[[noreturn]] void fail_chain_depth();
[[noreturn]] void fail_chain_cover(std::size_t blocks);

}  // namespace gradus::detail

#ifndef GRADUS_COMPILED
#include "failures.ipp"
#endif
