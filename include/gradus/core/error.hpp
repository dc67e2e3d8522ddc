#pragma once
#include <stdexcept>
#include <string>

namespace gradus {

/// Every error the library throws at run time. The message is one line: what was wrong, where, and what would be right.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A memory resource could not serve a request.
struct out_of_memory : error {
  using error::error;
};

}  // namespace gradus
