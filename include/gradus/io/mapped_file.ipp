#pragma once
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "../core/platform.hpp"
#include "mapped_file.hpp"

namespace gradus {

GRADUS_IMPL mapped_file::mapped_file(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code problem;
  const auto status = std::filesystem::status(path_, problem);
  if (status.type() == std::filesystem::file_type::not_found) fail("no such file");
  if (std::filesystem::is_directory(status)) fail("is a directory; name a file");
  errno = 0;
  const auto close = [](std::FILE* f) { std::fclose(f); };
  const std::unique_ptr<std::FILE, decltype(close)> file(platform::open_stream(path_.c_str(), "rb"), close);
  if (file == nullptr) fail(std::string("cannot be read: ") + std::strerror(errno));
  if (!map(file.get())) read(file.get());
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

GRADUS_IMPL void mapped_file::fail(const std::string& what) const { throw error(path_.string() + ": " + what); }

GRADUS_IMPL bool mapped_file::map(std::FILE* file) {
  platform::file_state found{};
  if (!platform::state_of(platform::file_of(file), found) || !found.is_regular || found.size == 0) return false;
  mapped_ = platform::map_to_read(platform::file_of(file), found.size);
  if (mapped_ == nullptr) return false;
  size_ = found.size;
  return true;
}

GRADUS_IMPL void mapped_file::read(std::FILE* file) {
  std::vector<std::byte> block(1 << 16);
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file))
    read_.insert(read_.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(got));
  if (std::ferror(file) != 0) fail(std::string("cannot be read: ") + std::strerror(errno));
  size_ = read_.size();
}

}  // namespace gradus
