#pragma once
// Pagers: owners of buffers whose memory comes and goes.

#include <cstddef>

namespace gradus {

/// Is notified before the bytes of its buffers are used; see buffer::paged. It restores them by then.
class pager {
 public:
  /// The address of a buffer's bytes is about to be read: of the buffer with number `page`. Called by buffer::data().
  virtual constexpr void use(std::size_t page) = 0;

 protected:
  constexpr pager() = default;
  constexpr ~pager() = default;  // never deleted through the base
  constexpr pager(const pager&) = default;
  constexpr pager& operator=(const pager&) = default;
};

}  // namespace gradus
