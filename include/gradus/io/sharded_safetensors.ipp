#pragma once
#include "json.hpp"
#include "random_access_file.hpp"
#include "sharded_safetensors.hpp"

namespace gradus {

GRADUS_IMPL sharded_safetensors::sharded_safetensors(const std::filesystem::path& path) : path_(path) {
  if (path.extension() == ".json") {
    open_index();
  } else {
    files_.emplace_back(path);
    for (const auto& [name, entry] : files_.front().entries()) place_of_.emplace(name, 0);
  }
}

GRADUS_IMPL safetensors_file& sharded_safetensors::file_of(std::string_view name) {
  const auto found = place_of_.find(name);
  if (found == place_of_.end())
    throw error((files_.size() == 1 ? files_.front().path() : path_).string() + ": has no tensor '" +
                std::string(name) + "'");
  return files_[found->second];
}

GRADUS_IMPL std::vector<std::string> sharded_safetensors::names() const {
  std::vector<std::string> all;
  for (const auto& [name, place] : place_of_) all.push_back(name);
  return all;
}

GRADUS_IMPL void sharded_safetensors::open_index() {
  const auto fail = [&](const std::string& what) { throw error(path_.string() + ": " + what); };
  const nlohmann::json index = parse_json(random_access_file(path_).text(), path_.string());
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    fail("is not an index of safetensors files: it has no object 'weight_map'");
  std::map<std::string, std::size_t> places;  // index of a file in files_
  for (const auto& item : index["weight_map"].items()) {
    const std::string file = item.value().is_string() ? item.value().get<std::string>() : "";
    // Rejects paths that leave the folder (transformers writes none) and names that contain a NUL.
    if (file.empty() || file == "." || file == ".." ||
        file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
      fail("weight_map: '" + item.key() + "' must be in a file of the same folder, not in " + item.value().dump());
    const auto [place, is_new] = places.emplace(file, files_.size());
    if (is_new) files_.emplace_back(path_.parent_path() / file);
    (void)files_[place->second].entry(item.key());  // throws if it is missing
    place_of_.emplace(item.key(), place->second);
  }
  for (std::size_t i = 0; i < files_.size(); ++i)
    for (const auto& [name, entry] : files_[i].entries())
      if (const auto found = place_of_.find(name); found == place_of_.end() || found->second != i)
        throw error(files_[i].path().string() + ": has a tensor '" + name + "' that " + path_.filename().string() +
                    " does not list");
}

}  // namespace gradus
