#pragma once
#include <utility>

#include "../core/platform.hpp"
#include "mapped_file.hpp"
#include "random_access_file.hpp"

namespace gradus {

GRADUS_IMPL mapped_file::mapped_file(std::filesystem::path path) : path_(std::move(path)) {
  if (map()) return;
  const random_access_file file(path_);
  read_.resize(file.size());
  file.read(0, read_);
  size_ = read_.size();
}

GRADUS_IMPL mapped_file::mapped_file(mapped_file&& other) noexcept
    : path_(std::move(other.path_)),
      mapped_(std::exchange(other.mapped_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      read_(std::move(other.read_)) {}

GRADUS_IMPL mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  mapped_file moved(std::move(other));
  std::swap(path_, moved.path_);
  std::swap(mapped_, moved.mapped_);
  std::swap(size_, moved.size_);
  std::swap(read_, moved.read_);
  return *this;
}

GRADUS_IMPL mapped_file::~mapped_file() {
  if (mapped_ != nullptr) platform::unmap(mapped_, size_);
}

GRADUS_IMPL void mapped_file::release() const {
  if (mapped_ != nullptr) platform::drop_pages(mapped_, size_);
}

GRADUS_IMPL bool mapped_file::map() {
  platform::file_state found{};
  if (!platform::state_of(path_.c_str(), found) || !found.is_regular || found.size == 0) return false;
  const int file = platform::open_file(path_.c_str(), platform::file_use::read);
  if (file < 0) return false;
  if (platform::state_of(file, found) && found.is_regular && found.size != 0)
    mapped_ = platform::map_to_read(file, found.size);
  platform::close_file(file);
  size_ = mapped_ != nullptr ? found.size : 0;
  return mapped_ != nullptr;
}

}  // namespace gradus
