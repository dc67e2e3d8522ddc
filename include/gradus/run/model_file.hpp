#pragma once
// A model's parameters and states as a safetensors file: save and load.
// Unless it is compiled separately it includes nlohmann/json, so gradus.hpp does not include it.

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "../io/safetensors.hpp"
#include "../memory/context.hpp"
#include "../model/copy.hpp"
#include "../model/freeze.hpp"
#include "../model/init.hpp"
#include "../model/parameters.hpp"
#include "../tensor/creation.hpp"

namespace gradus {

/// Writes those parameters and states of a model that `names` chooses, under their names (see param_names), with a
/// checksum and `metadata`: `save(net, path, "head.*")`. `names` is a pattern (see matches), or a predicate: name ->
/// bool; load() reads such a file if it is not strict. The file appears at `path` in one step: what was there before
/// stays until all of the new file is on the disk. Throws gradus::error, also if a pattern fits no tensor. Each tensor
/// is read when it is written, after a call of before_each(), unless that is null.
template <class Model, class Names>
  requires detail::is_name_pattern<Names> || std::is_invocable_r_v<bool, const Names&, std::string_view>
void save(const Model& model, const std::filesystem::path& path, const Names& names,
          const std::map<std::string, std::string>& metadata = {}, const std::function<void()>& before_each = nullptr) {
  safetensors_writer file;
  file.add_checksum();
  for (const auto& [name, text] : metadata) file.set_metadata(name, text);
  std::string first;
  bool some = false;
  for_each_tensor(model, [&]<class P>(std::string_view name, const P& p) {
    if (first.empty()) first = name;
    if (!detail::chooses(names, name)) return;
    some = true;
    const std::vector<std::size_t> shape(P::shape::extents.begin(), P::shape::extents.end());
    file.add_parts(name, detail::safetensors_dtype(dtype_name<typename P::value_type>()), shape, P::shape::size,
                   [&p, &before_each](const safetensors_writer::byte_sink& write) {
                     if (before_each) before_each();
                     const auto& values = detail::host_values(p);
                     write(std::as_bytes(std::span(values)));
                   });
  });
  if constexpr (detail::is_name_pattern<Names>)
    if (!some) detail::fail_no_such_name("save(model, path, names)", names, first);
  file.write(path);
}
/// Writes all parameters and states of a model; otherwise as above.
template <class Model>
void save(const Model& model, const std::filesystem::path& path,
          const std::map<std::string, std::string>& metadata = {}, const std::function<void()>& before_each = nullptr) {
  save(
      model, path, [](std::string_view) { return true; }, metadata, before_each);
}

/// Settings of load().
struct load_options {
  bool strict = true;  ///< refuse a file that lacks a tensor of the model, or has it in another shape
};
/// What load() did with each tensor of the model and of the file, by name.
struct load_report {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;      ///< names in the model that the file lacks
  std::vector<std::string> other_shape;  ///< names whose shape differs between the file and the model
  std::vector<std::string> left;         ///< names in the file that the model lacks

  /// True if every tensor of the model was loaded.
  bool is_complete() const { return missing.empty() && other_shape.empty(); }
  /// One line for each list that has names: `missing in the file: head.weight, head.bias`.
  std::string to_string() const {
    std::string text;
    const auto line = [&](std::string_view what, const std::vector<std::string>& names) {
      if (names.empty()) return;
      text.append(what);
      for (const std::string& name : names) text.append(&name == &names.front() ? ": " : ", ").append(name);
      text += '\n';
    };
    line("loaded", loaded);
    line("missing in the file", missing);
    line("of another shape in the file", other_shape);
    line("left in the file", left);
    return text;
  }
};

/// Reads the parameters and states of a model from a file that save() or another program wrote, and converts them from
/// the floating-point type they are stored in. The model need not be initialised; its tensors come from `ctx`. Tensors
/// that the model does not have are left in the file, so a checkpoint can be read as a model. Unless `strict`, tensors
/// that the file lacks or has in another shape keep their values. Checks the file before it changes anything. Calls
/// after(parameter) for each parameter that was read and may be trained, before the next one is, as init() does. Throws
/// gradus::error, which names the file and the tensor, if one does not fit, or if the file is damaged.
template <class Model, class D, class After = nothing_after>
load_report load(Model& model, context<D>& ctx, const std::filesystem::path& path, const load_options& options = {},
                 const After& after = {}) {
  safetensors_file file(path);
  file.check_checksum();
  load_report report;
  std::set<std::string, std::less<>> known;
  for_each_tensor(model, [&]<class P>(std::string_view name, const P&) {
    const std::vector<std::size_t> shape(P::shape::extents.begin(), P::shape::extents.end());
    known.emplace(name);
    if (!options.strict && !file.has(name)) {
      report.missing.emplace_back(name);
    } else if (!options.strict && file.entry(name).shape != shape) {
      report.other_shape.emplace_back(name);
    } else {
      file.check_as<typename P::value_type>(name, shape);
      report.loaded.emplace_back(name);
    }
  });
  for (const auto& [name, entry] : file.entries())
    if (!known.contains(name)) report.left.push_back(name);
  std::size_t next = 0;
  for_each_tensor(model, [&]<class P>(std::string_view name, P& p) {
    if (next == report.loaded.size() || report.loaded[next] != name) return;
    ++next;
    const std::vector<std::size_t> shape(P::shape::extents.begin(), P::shape::extents.end());
    const auto values = file.read_as<typename P::value_type>(name, shape);
    p.set(from_host<typename P::value_type, typename P::shape>(ctx, values.data(), P::memory_category));
    if constexpr (detail::trained_only::takes<P>) after(p);
  });
  return report;
}

/// The name of the first parameter or state with a value that is not finite; empty if all values are finite.
template <class Model>
std::string find_not_finite(const Model& model) {
  std::string found;
  for_each_tensor(model, [&]<class P>(std::string_view name, const P& p) {
    if (!found.empty()) return;
    for (const auto value : detail::host_values(p))
      if (!std::isfinite(static_cast<compute_type<typename P::value_type>>(value))) {
        found = name;
        return;
      }
  });
  return found;
}

}  // namespace gradus
