// A store of parameters' values in the memory of another model, for tests of parameter_residency.
#pragma once

#include <gradus/gradus.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace gradus_test {

// Loads the values that the parameters of `from` have when read() is called. Values are written to `to` as late as a
// store may do so, and are NaN before.
template <class T>
class copying_store final : public gradus::group_store<T> {
 public:
  template <class Model>
  explicit copying_store(const Model& from) {
    read(from);
  }
  template <class Model>
  void read(const Model& from) {
    arrays_.clear();
    std::vector<std::string> names;
    gradus::for_each_param(from, [&](std::string_view name, const auto& p) {
      const std::string group(gradus::group_of_param(name));
      auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), group) - names.begin());
      if (at == names.size()) {
        names.push_back(group);
        arrays_.emplace_back();
      }
      auto& to = arrays_[at];
      const auto values = p.value().values();
      to.insert(to.end(), values.begin(), values.end());
      to.resize((to.size() * sizeof(T) + 255) / 256 * 256 / sizeof(T));
    });
  }
  void start_load(std::size_t group, T* to) override {
    std::fill_n(to, arrays_[group].size(), T(std::numeric_limits<float>::quiet_NaN()));
    pending_.push_back({group, to});
    ++loads;
    most_pending = std::max(most_pending, pending_.size());
  }
  void finish_load(std::size_t group) override {
    for (std::size_t i = 0; i < pending_.size(); ++i)
      if (pending_[i].group == group) {
        std::copy(arrays_[group].begin(), arrays_[group].end(), pending_[i].to);
        pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
    throw gradus::error("finish_load of a group that is not being loaded");
  }

  std::size_t loads = 0, most_pending = 0;

 private:
  struct load {
    std::size_t group;
    T* to;
  };
  std::vector<std::vector<T>> arrays_;
  std::vector<load> pending_;
};

}  // namespace gradus_test
