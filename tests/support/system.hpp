#pragma once
// What tests ask of the system besides the library. Windows has no fork(), no named pipes in folders, no limits on
// files, and no files that their owner may not read. It removes and replaces no file that is open, and MinGW's
// std::filesystem makes no symbolic links. Tests of these are skipped there.

#include <cstdlib>

namespace gradus_test {

#if defined(_WIN32)
inline constexpr bool on_windows = true;
#else
inline constexpr bool on_windows = false;
#endif

/// Sets a variable of the environment; null removes it.
inline void set_variable(const char* name, const char* value) {
#if defined(_WIN32)
  _putenv_s(name, value == nullptr ? "" : value);
#else
  if (value == nullptr) unsetenv(name);
  else setenv(name, value, 1);
#endif
}

}  // namespace gradus_test
