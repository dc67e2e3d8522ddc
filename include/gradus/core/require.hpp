#pragma once
// GRADUS_REQUIRE: a condition of a function on its operands' types, with the message that a user reads.

// g++ then prints the message and the condition, and not how the macro expands.
#pragma GCC system_header

/// Stops the function with one compiler error, `message`, unless the condition (a constant of types) holds. Conditions
/// stand in a row, before a return, a block or an `if constexpr`, which is compiled only if all of them hold. The
/// compiler prints the condition: name it by a variable template whose arguments are the extents that users should see.
#define GRADUS_REQUIRE(message, ...)     \
  if constexpr (!(__VA_ARGS__)) {        \
    static_assert(__VA_ARGS__, message); \
  } else
