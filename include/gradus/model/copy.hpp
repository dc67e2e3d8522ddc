#pragma once
// Copies the values of one model to another, by member path.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "../core/shape_text.hpp"
#include "../tensor/creation.hpp"
#include "parameters.hpp"

namespace gradus {

namespace detail {

// The values of a parameter or state where the host can read them: the device's own memory, or a copy.
template <class P>
decltype(auto) host_values(const P& p) {
  if constexpr (P::device::host_addressable) return p.value().values();
  else return to_host(p.value());
}

// A parameter or state of a model, without its types.
struct named_tensor {
  std::string name;
  std::span<const index_t> extents;
  bool present;   // it has a value
  bool computes;  // on a device that has elements
  const void* tensor;
  std::vector<double> (*read)(const void* tensor);  // its values; exact, because they are floating
};
template <class P>
std::vector<double> read_values(const void* tensor) {
  std::vector<double> all;
  all.reserve(P::shape::size);
  if constexpr (P::device::computes)
    for (const auto v : host_values(*static_cast<const P*>(tensor)))
      all.push_back(static_cast<double>(static_cast<compute_type<typename P::value_type>>(v)));
  return all;
}
template <class Model>
std::vector<named_tensor> named_tensors(const Model& model) {
  std::vector<named_tensor> all;
  for_each_tensor(model, [&]<class P>(std::string_view name, const P& p) {
    all.push_back(
        {std::string(name), P::shape::extents, static_cast<bool>(p.value()), P::device::computes, &p, &read_values<P>});
  });
  return all;
}

// For each tensor of `to`, the tensor of `from` with its name. Throws error, which names the first one that does not
// fit.
GRADUS_NOINLINE inline std::vector<const named_tensor*> pair_tensors(const std::vector<named_tensor>& from,
                                                                     const std::vector<named_tensor>& to) {
  const auto find = [](const std::vector<named_tensor>& all, const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const named_tensor& t) { return t.name == name; });
  };
  const auto refuse = [](const named_tensor& t, const std::string& why) {
    throw error("copy(from, to): '" + t.name + "' " + why);
  };
  const auto text = [](const named_tensor& t) { return text_of_extents(t.extents.data(), t.extents.size()); };
  std::vector<const named_tensor*> pairs;
  for (const named_tensor& t : to) {
    const auto source = find(from, t.name);
    if (source == from.end()) refuse(t, "is in `to` only; the models must have the same members");
    if (!std::equal(t.extents.begin(), t.extents.end(), source->extents.begin(), source->extents.end()))
      refuse(t, "is a " + text(*source) + " in `from` and a " + text(t) + " in `to`; the shapes must be equal");
    if (!source->present || !t.present)
      refuse(t, std::string("has no value yet in ") + (t.present ? "`from`" : "`to`") +
                    "; call gradus::init(model, context, rule) first");
    if (t.computes && !source->computes) refuse(t, "has no elements in `from`, whose device computes nothing");
    pairs.push_back(&*source);
  }
  for (const named_tensor& t : from)
    if (find(to, t.name) == to.end()) refuse(t, "is in `from` only; the models must have the same members");
  return pairs;
}

}  // namespace detail

/// Copies the values of all parameters and states of `from` to the tensors of `to` with the same names (see
/// param_names), in place: tensors that share their memory change with them.
///
/// The models may be of different types, element types (each value is rounded once), contexts and devices; both
/// are initialised. Waits for both devices. Throws error, which names the first path that does not fit, and leaves `to`
/// unchanged, unless both have the same names and shapes.
template <class From, class To>
void copy(const From& from, To& to) {
  const std::vector<detail::named_tensor> sources = detail::named_tensors(from);
  const std::vector<const detail::named_tensor*> pairs = detail::pair_tensors(sources, detail::named_tensors(to));
  std::size_t next = 0;
  for_each_tensor(to, [&]<class P>(std::string_view, P& p) {
    using T = typename P::value_type;
    const detail::named_tensor& source = *pairs[next++];
    const std::vector<double> values = source.read(source.tensor);
    auto& value = p.edit();
    if constexpr (P::device::computes) {
      std::vector<T> rounded(values.size());
      std::transform(values.begin(), values.end(), rounded.begin(),
                     [](double v) { return static_cast<T>(static_cast<compute_type<T>>(v)); });
      device_access<typename P::device>::upload(value.owner(), value.data(), rounded.data(), value.bytes);
    }
  });
}

}  // namespace gradus
