#pragma once
#include "../io/mapped_file.hpp"
#include "text.hpp"

namespace gradus {

GRADUS_IMPL std::string read_text(const std::filesystem::path& path) {
  const mapped_file file(path);
  if (file.size() == 0) throw error(path.string() + ": is empty");
  return std::string(file.text());
}

}  // namespace gradus
