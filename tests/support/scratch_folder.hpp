#pragma once
// A folder of a test's own, empty at first and removed at the end.

#include <filesystem>
#include <string>

#include "seed.hpp"

namespace gradus_test {

struct scratch_folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("gradus_test_" + std::to_string(fresh_seed()));
  scratch_folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() { std::filesystem::remove_all(path); }
};

}  // namespace gradus_test
