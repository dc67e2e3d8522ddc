#pragma once
// A trained model as a safetensors file: its parameters under their names, and its sizes as metadata.

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gradus/io/safetensors.hpp>

#include "config.hpp"

namespace gpt {

inline void save_model(const network& net, const std::filesystem::path& path) {
  gr::safetensors_writer file;
  file.set_metadata("model", "gradus gpt");
  file.set_metadata("precision", precision_name);
  file.add_checksum();
  for (const auto& [name, size] : named_sizes()) file.set_metadata(name, std::to_string(size));
  gr::for_each_param(net, [&](std::string_view name, const auto& p) {
    using S = typename std::remove_cvref_t<decltype(p)>::shape;
    const std::vector<std::size_t> shape(S::extents.begin(), S::extents.end());
    file.add(name, shape, p.value().values());
  });
  file.write(path);
}

/// A model that the last update spoilt must not replace a good one: throws if a parameter is not finite.
inline void check_worth_saving(const network& net) {
  gr::for_each_param(net, [&](std::string_view name, const auto& p) {
    for (const auto value : p.value().values())
      if (!std::isfinite(static_cast<float>(value)))
        throw gr::error("not saved: the parameter " + std::string(name) + " is no longer finite; try a lower --lr");
  });
}

/// Fills the model from a file, whatever type of floating-point number it holds. Throws gradus::error, which names the first size that differs from this program's.
template <class On>
void load_model(model<On, sizes>& net, gr::context<gr::cpu>& ctx, const std::filesystem::path& path) {
  gr::safetensors_file file(path);
  for (const auto& [name, size] : named_sizes()) {
    const auto found = file.metadata().find(name);
    if (found == file.metadata().end())
      throw gr::error(path.string() + ": no model of this program: it names no " + name);
    if (found->second != std::to_string(size))
      throw gr::error(path.string() + ": its " + name + " is " + found->second +
                      ", and this program was compiled for " + std::to_string(size));
  }
  file.check_checksum();
  gr::for_each_param(net, [&](std::string_view name, auto& p) {
    using P = std::remove_cvref_t<decltype(p)>;
    const std::vector<std::size_t> shape(P::shape::extents.begin(), P::shape::extents.end());
    const auto values = file.read_as<typename P::value_type>(name, shape);
    p.set(gr::from_host<typename P::value_type, typename P::shape>(ctx, values.data(), gr::category::parameter));
  });
}

}  // namespace gpt
