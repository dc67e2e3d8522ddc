#pragma once
// A model's parameters as a safetensors file: save and load.
// Unless it is compiled separately it includes nlohmann/json, so gradus.hpp does not include it.

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../core/error.hpp"
#include "../io/safetensors.hpp"
#include "../memory/context.hpp"
#include "../model/parameters.hpp"
#include "../tensor/creation.hpp"

namespace gradus {

namespace detail {

// A parameter's values where the host can read them: the device's own memory, or a copy.
template <class P>
decltype(auto) host_values(const P& p) {
  if constexpr (P::device::host_addressable) return p.value().values();
  else return to_host(p.value());
}

}  // namespace detail

/// Writes the parameters of a model under their names (see param_names), with a checksum and `metadata`. The file
/// appears at `path` in one step: what was there before stays until all of the new file is on the disk. Throws
/// gradus::error.
template <class Model>
void save(const Model& model, const std::filesystem::path& path,
          const std::map<std::string, std::string>& metadata = {}) {
  safetensors_writer file;
  file.add_checksum();
  for (const auto& [name, text] : metadata) file.set_metadata(name, text);
  std::vector<std::shared_ptr<const void>> copies;  // of another device's memory, until the file is written
  for_each_param(model, [&](std::string_view name, const auto& p) {
    using P = std::remove_cvref_t<decltype(p)>;
    const std::vector<std::size_t> shape(P::shape::extents.begin(), P::shape::extents.end());
    const auto values = std::make_shared<decltype(detail::host_values(p))>(detail::host_values(p));
    file.add(name, shape, std::span<const typename P::value_type>(*values));
    copies.push_back(values);
  });
  file.write(path);
}

/// Reads the parameters of a model from a file that save() or another program wrote, and converts them from the
/// floating-point type they are stored in. The model need not be initialised; its parameters come from `ctx`. Tensors
/// that the model does not have are ignored, so a checkpoint can be read as a model. Throws gradus::error, which names
/// the file and the tensor, if one is missing or has another shape, or if the file is damaged.
template <class Model, class D>
void load(Model& model, context<D>& ctx, const std::filesystem::path& path) {
  safetensors_file file(path);
  file.check_checksum();
  for_each_param(model, [&](std::string_view name, auto& p) {
    using P = std::remove_cvref_t<decltype(p)>;
    const std::vector<std::size_t> shape(P::shape::extents.begin(), P::shape::extents.end());
    const auto values = file.read_as<typename P::value_type>(name, shape);
    p.set(from_host<typename P::value_type, typename P::shape>(ctx, values.data(), category::parameter));
  });
}

/// The name of the first parameter with a value that is not finite; empty if all values are finite.
template <class Model>
std::string find_not_finite(const Model& model) {
  std::string found;
  for_each_param(model, [&](std::string_view name, const auto& p) {
    if (!found.empty()) return;
    for (const auto value : detail::host_values(p))
      if (!std::isfinite(static_cast<float>(value))) {
        found = name;
        return;
      }
  });
  return found;
}

}  // namespace gradus
