#pragma once
// Parameters in memory only while they are used: groups are loaded when an operation needs them, and evicted after it.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "../memory/buffer.hpp"
#include "../memory/pager.hpp"
#include "param_groups.hpp"

namespace gradus {

/// Where the values of a parameter_residency's groups come from.
template <class T>
class group_store {
 public:
  group_store() = default;
  group_store(const group_store&) = delete;
  group_store& operator=(const group_store&) = delete;
  virtual ~group_store() = default;
  /// Starts to write the array of group number `group` (see param_groups) to `to`, on the residency's device; null on
  /// `meta`. Work already submitted to the context's stream may still use that memory.
  virtual void start_load(std::size_t group, T* to) = 0;
  /// Work submitted to the context's stream after it sees the values. Called once for each start_load, and before the
  /// memory is evicted.
  virtual void finish_load(std::size_t group) = 0;
};

/// A store that loads nothing: for plans.
template <class T>
class no_store final : public group_store<T> {
 public:
  void start_load(std::size_t, T*) override {}
  void finish_load(std::size_t) override {}
};

/// Keeps at most `capacity` groups of a model's parameters in memory. The values of all groups are in a store. Whenever
/// the address of a parameter's elements is read (in forward, backward, a replay of a checkpoint region, generation),
/// its group is loaded unless it is resident, and the group used longest ago is evicted. A copy in the compute type
/// comes and goes with its group. The model's code does not change, nor do bits.
///
/// Once the order of the groups is known, the next group loads while one is used: its load starts with the first use of
/// the one before. The order is learned between two calls of invalidate(), or given to follow().
///
/// One operation uses parameters of one group; of capacity - 1 groups if there are more. Values are for reading only:
/// an update changes the store, then calls invalidate(). Memory is requested from the context, in the current activity,
/// so a step with a residency over its own context can be planned; its work runs on the context's stream. One thread
/// uses the model. The model and the store outlive the residency, and lose their values with it; the context outlives
/// all recordings.
/// @tparam T type of values
/// @tparam G type of gradients
template <class T, class D, class G = T>
class parameter_residency final : private pager {
 public:
  using groups_type = param_groups<T, D, G>;

  /// Takes over the values of the parameters in `groups`: nothing is resident. Throws error if `capacity` is 0.
  parameter_residency(context<D>& ctx, groups_type groups, group_store<T>& store, std::size_t capacity = 2)
      : ctx_(&ctx), groups_(std::move(groups)), store_(&store), capacity_(capacity) {
    if (capacity == 0) throw error("parameter_residency: the capacity must be one group at least");
    loading_.resize(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g)
      values_.push_back(buffer<D>::paged(ctx, groups_[g].bytes(), category::parameter, this, g));
    place();
  }
  parameter_residency(const parameter_residency&) = delete;
  parameter_residency& operator=(const parameter_residency&) = delete;
  /// The parameters have no values any more.
  ~parameter_residency() {
    try {
      evict();
    } catch (const error&) {  // a load failed; what is resident is freed with its last handle
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const auto& e : groups_[g].params) e.param->set_storage({});
      values_[g].end_paging();
    }
  }

  const groups_type& groups() const { return groups_; }
  std::size_t capacity() const { return capacity_; }
  /// True if the group has memory, also if its values are still being loaded.
  bool is_resident(std::size_t group) const { return values_[group].is_resident(); }
  /// The memory of a parameter's values in its group: `number` counts the group's parameters. What has replaced it (by
  /// param.set) can be put back with param.set_storage.
  buffer<D> storage_of(std::size_t group, std::size_t number) const {
    const auto& e = groups_[group].params[number];
    return values_[group].part(e.first * sizeof(T), e.param->size() * sizeof(T));
  }
  /// Bytes of the groups that are in memory, without copies in the compute type.
  std::size_t resident_bytes() const {
    std::size_t sum = 0;
    for (const std::size_t g : held_) sum += groups_[g].bytes();
    return sum;
  }

  /// Evicts all groups. They are loaded again when they are used, in the order of a step from its beginning.
  void evict() {
    while (!held_.empty()) drop(held_.front());
    current_ = at_ = none;
  }
  /// The store's values have changed: evicts all groups, and counts a change of each parameter, whose value is the
  /// residency's again if it was replaced. Also the beginning of the next step, in which the groups are expected in the
  /// order of the step before.
  void invalidate() {
    evict();
    place();
    if (order_.empty()) order_ = std::move(learned_);
    learned_.clear();
  }

  /// The order in which groups are expected in a step: the numbers of the groups, each as often as its use begins.
  /// Empty until a step was learned.
  const std::vector<std::size_t>& order() const { return order_; }
  /// Expects this order from now on, as at the beginning of a step, such as the order() of another residency, say of a
  /// plan. An empty order is learned again.
  void follow(std::vector<std::size_t> order) {
    order_ = std::move(order);
    learned_.clear();
    at_ = none;
  }

 private:
  // Makes parts of the groups' arrays the parameters' values.
  void place() {
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t i = 0; i < groups_[g].params.size(); ++i)
        groups_[g].params[i].param->set_storage(storage_of(g, i));
  }
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  static constexpr std::size_t longest_order = 1 << 16;

  void use(std::size_t group) override {
    check_operation(group);
    if (group == current_) return;
    if (!values_[group].is_resident()) start(group);
    finish(group);
    const auto at = std::find(held_.begin(), held_.end(), group);
    std::rotate(at, at + 1, held_.end());
    const std::size_t next = advance(std::exchange(current_, group), group);
    if (next != none && capacity_ > 1 && !values_[next].is_resident()) start(next);
  }
  // Throws error if the current operation uses more groups than stay for it.
  void check_operation(std::size_t group) {
    const activity_log& log = ctx_->activities();
    if (log.begun() != operation_ || log.current().name.empty()) of_operation_.clear();
    operation_ = log.begun();
    if (std::find(of_operation_.begin(), of_operation_.end(), group) != of_operation_.end()) return;
    of_operation_.push_back(group);
    const std::size_t most = std::max<std::size_t>(capacity_ - 1, 1);
    if (of_operation_.size() > most)
      throw error("parameter_residency: the operation '" + std::string(log.current().name) + "' uses parameters of " +
                  std::to_string(of_operation_.size()) + " groups ('" + groups_[of_operation_.front()].name +
                  "' ... '" + groups_[group].name + "'); a capacity of " + std::to_string(capacity_) + " allows " +
                  std::to_string(most) + ": join the groups, or increase the capacity");
  }
  void start(std::size_t group) {
    held_.reserve(capacity_ + 1);
    while (held_.size() >= capacity_) drop(held_.front());
    T* const to = static_cast<T*>(values_[group].restore());
    held_.push_back(group);
    try {
      store_->start_load(group, to);
    } catch (...) {
      drop(group);
      throw;
    }
    loading_[group] = true;
  }
  void finish(std::size_t group) {
    if (!loading_[group]) return;
    loading_[group] = false;
    try {
      store_->finish_load(group);
    } catch (...) {
      drop(group);
      throw;
    }
  }
  // Throws if a load that was under way has failed; the group is not resident then, either.
  void drop(std::size_t group) {
    std::exception_ptr failure;
    if (loading_[group]) try {
        loading_[group] = false;
        store_->finish_load(group);
      } catch (...) { failure = std::current_exception(); }
    for (const auto& e : groups_[group].params) e.param->evict_computed();
    values_[group].evict();
    held_.erase(std::find(held_.begin(), held_.end(), group));
    if (failure) std::rethrow_exception(failure);
  }

  // Notes that `group` is used after `before`. Returns the group that is expected after it, or none.
  std::size_t advance(std::size_t before, std::size_t group) {
    if (order_.empty()) {
      if (learned_.size() < longest_order) learned_.push_back(group);
      return none;
    }
    at_ = find(before, group);
    return at_ == none || at_ + 1 == order_.size() ? none : order_[at_ + 1];
  }
  // Where `group` follows `before` in the order, next after the current place; or else where it is at all.
  std::size_t find(std::size_t before, std::size_t group) const {
    const std::size_t n = order_.size();
    const std::size_t from = at_ == none ? 0 : at_ + 1;
    std::size_t alone = none;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t p = (from + i) % n;
      if (order_[p] != group) continue;
      if (i == 0 || (p > 0 && order_[p - 1] == before)) return p;
      if (alone == none) alone = p;
    }
    return alone;
  }

  context<D>* ctx_;
  groups_type groups_;
  group_store<T>* store_;
  std::size_t capacity_;
  std::vector<buffer<D>> values_;   // of each group
  std::vector<bool> loading_;       // of each group
  std::vector<std::size_t> held_;   // resident groups, the one used longest ago first
  std::vector<std::size_t> order_;  // expected
  std::vector<std::size_t> learned_;
  std::size_t current_ = none;             // the group used last
  std::size_t at_ = none;                  // its place in the order
  std::size_t operation_ = none;           // number of the last use, as activity_log::begun() counts
  std::vector<std::size_t> of_operation_;  // the groups that it has used
};

}  // namespace gradus
