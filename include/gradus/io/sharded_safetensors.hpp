#pragma once
// Tensors in several safetensors files, the format of Hugging Face's large models. Needs nlohmann/json.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "safetensors.hpp"

namespace gradus {

/// A safetensors file, or all files of an index (model.safetensors.index.json). The constructor checks each file like
/// safetensors_file, and that it holds exactly the tensors that the index lists. Otherwise throws gradus::error.
class sharded_safetensors {
 public:
  /// `path`: an index if its name ends in ".json", with its files in the same folder; otherwise the only file.
  explicit sharded_safetensors(const std::filesystem::path& path);

  /// All files.
  const std::vector<safetensors_file>& files() const { return files_; }
  bool has(std::string_view name) const { return place_of_.find(name) != place_of_.end(); }
  /// The file that holds a tensor. Throws gradus::error if none does.
  safetensors_file& file_of(std::string_view name);
  std::filesystem::path path_of(std::string_view name) { return file_of(name).path(); }
  /// The names of all tensors, in order.
  std::vector<std::string> names() const;
  /// Reads a tensor of this shape; see safetensors_file::read_as().
  template <class T>
  std::vector<T> read_as(std::string_view name, std::span<const std::size_t> shape) {
    return file_of(name).read_as<T>(name, shape);
  }

 private:
  void open_index();

  std::filesystem::path path_;
  std::vector<safetensors_file> files_;
  std::map<std::string, std::size_t, std::less<>> place_of_;  // index of a tensor's file in files_
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "sharded_safetensors.ipp"
#endif
