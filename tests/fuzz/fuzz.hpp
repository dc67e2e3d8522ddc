#pragma once
// What a fuzz target is: it gets bytes from nobody knows where, and may do nothing but throw gradus::error.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gradus/core/error.hpp>
#include <string>
#include <string_view>

namespace gradus_fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A file that holds the bytes, for readers of files; removed at the end.
class input_file {
 public:
  input_file(const std::uint8_t* data, std::size_t size, const std::string& suffix = {})
      : path_(std::filesystem::temp_directory_path() /
              ("gradus_fuzz_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) + suffix)) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;
  ~input_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Calls f, which may throw gradus::error.
template <class F>
int attempt(const F& f) {
  try {
    f();
  } catch (const gradus::error&) {}
  return 0;
}

}  // namespace gradus_fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
