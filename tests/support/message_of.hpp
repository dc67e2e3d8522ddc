// What a failing call says.
#pragma once

#include <gradus/core/error.hpp>

#include <string>

namespace gradus_test {

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const gradus::error& e) { return e.what(); }
  return "nothing was thrown";
}

}  // namespace gradus_test
