#pragma once
// A trained model as a safetensors file: its parameters under their names, and its sizes as metadata.

#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gradus/io/safetensors.hpp>

#include "config.hpp"

namespace gpt {

/// Values of a parameter where the host can read them: as they lie, or a copy.
template <class P>
decltype(auto) host_values(const P& p) {
  if constexpr (P::device::host_addressable) return p.value().values();
  else return gr::to_host(p.value());
}

template <class On>
void save_model(const model<On, sizes>& net, const std::filesystem::path& path) {
  gr::safetensors_writer file;
  file.set_metadata("model", "gradus gpt");
  file.set_metadata("precision", precision_name);
  file.add_checksum();
  for (const auto& [name, size] : named_sizes()) file.set_metadata(name, std::to_string(size));
  std::vector<std::shared_ptr<const void>> kept;  // what the file is to be written from
  gr::for_each_param(net, [&](std::string_view name, const auto& p) {
    using P = std::remove_cvref_t<decltype(p)>;
    const std::vector<std::size_t> shape(P::shape::extents.begin(), P::shape::extents.end());
    const auto values = std::make_shared<decltype(host_values(p))>(host_values(p));
    file.add(name, shape, std::span<const typename P::value_type>(*values));
    kept.push_back(values);
  });
  file.write(path);
}

/// A model that the last update spoilt must not replace a good one: throws if a parameter is not finite.
template <class On>
void check_worth_saving(const model<On, sizes>& net) {
  gr::for_each_param(net, [&](std::string_view name, const auto& p) {
    for (const auto value : host_values(p))
      if (!std::isfinite(static_cast<float>(value)))
        throw gr::error("not saved: the parameter " + std::string(name) + " is no longer finite; try a lower --lr");
  });
}

/// Fills the model from a file, whatever type of floating-point number it holds. Throws gradus::error, which names the
/// first size that differs from this program's.
template <class On>
void load_model(model<On, sizes>& net, gr::context<typename On::device>& ctx, const std::filesystem::path& path) {
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
