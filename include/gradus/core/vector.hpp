#pragma once
// The vector of what runs in constant expressions, too.

#include <vector>

namespace gradus::detail {

#if defined(_GLIBCXX_DEBUG)
// In its debug mode, libstdc++ 12 has a std::vector that constant expressions cannot use. This is the one below it.
template <class T>
using vector = std::__cxx1998::vector<T>;
#else
template <class T>
using vector = std::vector<T>;
#endif

}  // namespace gradus::detail
