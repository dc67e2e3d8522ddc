#pragma once
// Where the values of parameters are that several ranks update together.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../model/param_groups.hpp"
#include "../model/parameter_residency.hpp"
#include "../ranks/communicator.hpp"
#include "../ranks/group_layout.hpp"
#include "../tensor/param.hpp"

namespace gradus {

/// Storage of parameters whose updates are divided among ranks. All groups are in memory, one block each, and after an
/// update every rank sends its shares; or a rank has its shares alone, and operations gather the groups that they use
/// (see parameter_residency). @tparam T, D, G as of param_base
template <class T, class D, class G>
class shared_values {
  using param_type = param_base<T, G, D>;

 public:
  /// `parameters` are in the model's order. If `shares_alone` is set, groups are gathered in memory of `transient`, in
  /// the order of a step, `order`, if that is known. The layout and the ranks outlive this object.
  shared_values(const group_layout& layout, const std::vector<param_type*>& parameters, communicator<D>& ranks,
                context<D>& persistent, context<D>& transient, bool shares_alone, std::vector<std::size_t> order)
      : layout_(&layout), ranks_(&ranks), persistent_(&persistent), parameters_(parameters) {
    std::vector<typename param_groups<T, D, G>::group> groups;
    for (const group_layout::group& l : layout.groups) {
      auto& made = groups.emplace_back();
      made.name = l.name;
      made.size = l.elements;
      for (const group_layout::place& p : l.places) made.params.push_back({parameters[p.number], p.offset});
      if (!shares_alone) blocks_.push_back(zeroed(l.elements));
    }
    groups_.emplace(std::move(groups));
    if (!shares_alone) return;
    shares_ = zeroed(layout.elements_of(ranks.rank()));
    store_.emplace(*this, transient);
    residency_.emplace(transient, *groups_, *store_);
    if (!order.empty()) residency_->follow(std::move(order));
  }
  shared_values(const shared_values&) = delete;
  shared_values& operator=(const shared_values&) = delete;

  /// Takes the value that a parameter got to where the ranks have it.
  void take(param_type& p) {
    const buffer<D> value = p.storage();
    if (value.is_paged()) return;
    for (std::size_t g = 0; g < groups_->size(); ++g)
      for (std::size_t i = 0; i < (*groups_)[g].params.size(); ++i)
        if ((*groups_)[g].params[i].param == &p) return take(p, value, g, i);
  }
  /// After an update of this rank's shares: gives the model the new values of all ranks' shares.
  void gather() {
    if (residency_) return residency_->invalidate();
    std::vector<pending_collective<D>> under_way;
    for (std::size_t g = 0; g < blocks_.size(); ++g) {
      const group_layout::group& l = layout_->groups[g];
      under_way.push_back(ranks_->tagged(g + 1).all_gather(
          *persistent_, at<const T>(blocks_[g], l.begin_of(ranks_->rank())), at<T>(blocks_[g], 0), l.counts));
    }
    for (auto& one : under_way) one.wait();
    for (param_type* const p : parameters_) p->mark_changed();
  }
  /// Drops the groups that operations have gathered.
  void release() {
    if (residency_) residency_->evict();
  }
  /// The order in which a step gathers groups; empty if it is not known, or if all are in memory.
  std::vector<std::size_t> order() const { return residency_ ? residency_->order() : std::vector<std::size_t>{}; }
  /// This rank's values of its piece, if it has its shares alone; else null.
  T* share(const group_layout::piece& p) const { return at<T>(shares_, layout_->place_in_shares(p)); }

 private:
  template <class E>
  static E* at(const buffer<D>& memory, index_t element) {
    if constexpr (!D::computes) return nullptr;
    else return memory ? static_cast<E*>(memory.data()) + element : nullptr;
  }
  buffer<D> zeroed(index_t n) const {
    buffer<D> made(*persistent_, n * sizeof(T), category::parameter);
    if constexpr (D::computes) device_access<D>::zero(*persistent_, made.data(), made.bytes());
    return made;
  }
  void copy(T* to, const buffer<D>& from, index_t first, index_t n) const {
    if constexpr (D::computes)
      device_access<D>::copy(*persistent_, to, static_cast<const T*>(from.data()) + first, n * sizeof(T));
  }
  // Takes the value of parameter `number` of a group.
  void take(param_type& p, const buffer<D>& value, std::size_t group, std::size_t number) {
    const group_layout::place& place = layout_->groups[group].places[number];
    if (residency_) {
      for (const group_layout::piece& own : layout_->pieces)
        if (own.owner == ranks_->rank() && own.number == place.number) copy(share(own), value, own.begin, own.size);
      return p.set_storage(residency_->storage_of(group, number));
    }
    T* const to = at<T>(blocks_[group], place.offset);
    if (D::computes && value.data() == to) return;
    copy(to, value, 0, p.size());
    p.set_storage(blocks_[group].part(place.offset * sizeof(T), p.size() * sizeof(T)));
  }

  // Gathers groups from the shares of all ranks.
  class gathering_store final : public group_store<T> {
   public:
    gathering_store(shared_values& of, context<D>& transient)
        : of_(&of), transient_(&transient), loads_(of.layout_->groups.size()) {}
    void start_load(std::size_t g, T* to) override {
      const T* const own = at<const T>(of_->shares_, of_->layout_->shares_before(g, of_->ranks_->rank()));
      loads_[g] = of_->ranks_->tagged(g + 1).all_gather(*transient_, own, to, of_->layout_->groups[g].counts);
    }
    void finish_load(std::size_t g) override { loads_[g].wait(); }

   private:
    shared_values* of_;
    context<D>* transient_;
    std::vector<pending_collective<D>> loads_;
  };

  const group_layout* layout_;
  communicator<D>* ranks_;
  context<D>* persistent_;
  std::vector<param_type*> parameters_;
  std::optional<param_groups<T, D, G>> groups_;
  std::vector<buffer<D>> blocks_;  // of all values of each group; none if a rank has its shares alone
  buffer<D> shares_;               // of this rank, group by group, in that case
  std::optional<gathering_store> store_;
  std::optional<parameter_residency<T, D, G>> residency_;
};

}  // namespace gradus
