#pragma once
// Tensors in several safetensors files, as Hugging Face's transformers stores a large model. Needs nlohmann/json.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "safetensors.hpp"

namespace gradus {

/// A safetensors file, or the files that an index (model.safetensors.index.json) names, opened. The constructor checks
/// each of them as safetensors_file does, and that a file holds the tensors that the index promises of it and no
/// others. Anything else throws gradus::error, which names the file.
class sharded_safetensors {
 public:
  /// `path`: a file whose name ends in ".json" is an index, whose files lie beside it; any other is the only file.
  explicit sharded_safetensors(const std::filesystem::path& path);

  /// All of them.
  const std::vector<safetensors_file>& files() const { return files_; }
  bool has(std::string_view name) const { return place_of_.find(name) != place_of_.end(); }
  /// The file that holds a tensor. Throws gradus::error where none does.
  safetensors_file& file_of(std::string_view name);

 private:
  void open_index();

  std::filesystem::path path_;
  std::vector<safetensors_file> files_;
  std::map<std::string, std::size_t, std::less<>> place_of_;  // of a tensor, in files_
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "sharded_safetensors.ipp"
#endif
