#pragma once
// The parameters of a model in groups, each with one contiguous array for all values.

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/shape.hpp"
#include "parameters.hpp"

namespace gradus {

/// The group of a parameter, by its name: an element of a list of layers (`blocks.3`), or else the member of the model
/// that has it (`tokens`); empty for a parameter that is itself a member. So the parameters of a layer are in one.
constexpr std::string_view group_of_param(std::string_view name) {
  for (std::size_t from = 0, dot; (dot = name.find('.', from)) != name.npos; from = dot + 1)
    if (name[from] >= '0' && name[from] <= '9') return name.substr(0, dot);
  return name.substr(0, name.find('.') == name.npos ? 0 : name.find('.'));
}

/// The parameters of a model in groups. The values of a group are one array: its parameters in the order of the model,
/// each from a multiple of `alignment` bytes on. The model must not move while the groups are in use.
/// @tparam T type of values
/// @tparam G type of gradients
template <class T, class D, class G = T>
class param_groups {
 public:
  using value_type = T;
  using device = D;
  using param_type = param_base<T, G, D>;
  static constexpr std::size_t alignment = 256;
  static_assert(alignment % D::alignment == 0);

  /// A parameter, and the number of its first value in the group's array.
  struct entry {
    param_type* param;
    index_t first;
  };
  struct group {
    std::string name;
    std::vector<entry> params;
    index_t size = 0;  ///< elements of the array, a multiple of alignment / sizeof(T)
    constexpr std::size_t bytes() const { return size * sizeof(T); }
  };

  /// Groups by group_of_param.
  template <class Model>
  explicit param_groups(Model& model)
      : param_groups(model, [](std::string_view name) { return group_of_param(name); }) {}
  /// @param group_of name of a parameter -> name of its group. Groups are in the order of their first parameters.
  template <class Model, class GroupOf>
  param_groups(Model& model, const GroupOf& group_of) {
    for_each_param(model, [&](std::string_view name, auto& p) {
      static_assert(std::is_base_of_v<param_type, std::remove_cvref_t<decltype(p)>>,
                    "param_groups<T, Device, G>(model): T, Device and G must be those of all the model's parameters");
      add(std::string(group_of(name)), p);
    });
  }

  /// The groups that are given, each with an array that is laid out already.
  explicit param_groups(std::vector<group> groups) : all_(std::move(groups)) {}

  const std::vector<group>& all() const { return all_; }
  std::size_t size() const { return all_.size(); }  ///< number of groups
  const group& operator[](std::size_t number) const { return all_[number]; }

 private:
  void add(std::string name, param_type& p) {
    std::size_t i = 0;
    while (i < all_.size() && all_[i].name != name) ++i;
    if (i == all_.size()) all_.push_back({std::move(name), {}, 0});
    constexpr index_t unit = alignment / sizeof(T);
    all_[i].params.push_back({&p, all_[i].size});
    all_[i].size += (p.size() + unit - 1) / unit * unit;
  }

  std::vector<group> all_;
};

}  // namespace gradus
