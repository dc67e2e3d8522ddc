#pragma once
// The values of a model's parameters in a file, from which a parameter_residency loads them.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "../memory/buffer.hpp"
#include "../memory/file_resource.hpp"
#include "param_groups.hpp"
#include "parameter_residency.hpp"

namespace gradus {

/// Loads groups from a file_resource, in its thread. Make it before the residency, of a model that was initialised in a
/// context over that resource. For an update, or to save or load values, attach() makes the values in the file the
/// parameters' own for a while:
///
///     residency.evict();
///     store.attach();
///     optimizer.step(in_file);
///     residency.invalidate();
/// @tparam T type of values
/// @tparam G type of gradients
template <class T, class G = T>
class file_store final : public group_store<T> {
 public:
  using groups_type = param_groups<T, cpu, G>;

  /// Throws error if a parameter has no value in the file.
  file_store(file_resource& file, groups_type groups) : file_(&file), groups_(std::move(groups)) {
    copies_.resize(groups_.size());
    for (const auto& g : groups_.all()) {
      auto& values = values_.emplace_back();
      for (const auto& e : g.params) {
        values.push_back(e.param->storage());
        if (!values.back()) throw error("file_store: a parameter of '" + g.name + "' has no value; call gradus::init");
      }
    }
  }
  /// Makes the parameters use the values in the file: counts a change of each.
  void attach() const {
    for_each([](const auto& param, const auto& value) { param->set_storage(value); });
  }
  /// Removes the pages of all values from the process's resident memory.
  void drop() const {
    for_each([&](const auto&, const auto& value) { file_->drop(value.data(), value.bytes()); });
  }

  void start_load(std::size_t group, T* to) override {
    for (std::size_t i = 0; i < values_[group].size(); ++i) {
      const buffer<cpu>& from = values_[group][i];
      copies_[group] = file_->start_copy(from.data(), to + groups_[group].params[i].first, from.bytes());
    }
  }
  void finish_load(std::size_t group) override { file_->finish(copies_[group]); }

 private:
  template <class F>
  void for_each(const F& f) const {
    for (std::size_t g = 0; g < values_.size(); ++g)
      for (std::size_t i = 0; i < values_[g].size(); ++i) f(groups_[g].params[i].param, values_[g][i]);
  }

  file_resource* file_;
  groups_type groups_;
  std::vector<std::vector<buffer<cpu>>> values_;  // of each group's parameters
  std::vector<std::uint64_t> copies_;             // of each group: the last one's number
};

}  // namespace gradus
