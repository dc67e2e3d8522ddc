#pragma once
#include "../io/random_access_file.hpp"
#include "text.hpp"

namespace gradus {

GRADUS_IMPL std::string read_text(const std::filesystem::path& path) {
  const random_access_file file(path);
  if (file.size() == 0) throw error(path.string() + ": is empty");
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace gradus
