#pragma once
// Data-parallel training: reduces gradients over ranks and assigns parameters to the ranks that update them.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../autodiff/observe.hpp"
#include "../autodiff/tape.hpp"
#include "../core/config.hpp"
#include "../model/param_groups.hpp"
#include "../model/parameters.hpp"
#include "../optim/param_pieces.hpp"
#include "../ranks/communicator.hpp"
#include "../ranks/group_layout.hpp"
#include "../ranks/tree_sum.hpp"
#include "shared_values.hpp"

namespace gradus {

/// What ranks divide among themselves, rather than each having all of it. Each includes those before it (ZeRO's stages:
/// Rajbhandari et al. 2020).
enum class sharding {
  nothing,    ///< every rank has the whole model, its gradients and its optimizer's states
  states,     ///< each rank has the states of its shares, and updates those
  gradients,  ///< after a leaf, each rank keeps the gradients of its shares
  parameters  ///< each rank keeps its shares; a group's parameters are gathered while operations use them
};

struct data_parallel_options {
  index_t leaves = 0;  ///< of an update, a power of two; 0: one a rank
  sharding shard = sharding::nothing;
  sum_order order = sum_order::tree;
  bool whole_parameters = false;              ///< each parameter has one owner, as Adafactor and Muon need
  std::vector<std::size_t> group_order = {};  ///< of data_parallel::group_order, if it is known
};

/// Exchanges gradients and values between ranks that train one model. An update is
///
///     for (index_t i = 0; i < parallel.leaves_here(); ++i) {
///       for each batch of leaf parallel.leaf(i) {
///         parallel.begin_batch(tape, i, is_last_batch);
///         backward(loss);
///       }
///       parallel.end_leaf();
///     }
///     parallel.finish();     // the gradients are the sums of all leaves
///     optimizer.step(ctx);   // over the model, or over this rank's pieces of it
///     parallel.gather_values();
///
/// Gradients are summed by the tree of ranks/tree_sum.hpp: one rank with the same leaves gets the same bits. Groups of
/// parameters are reduced while backward runs, the model's last one first, on all ranks in this order: a group when
/// backward has completed its gradients and the gradients of the groups before it.
///
/// A parameter that some leaves do not use has zeros from these, and in an update that none of them uses, a gradient of
/// zeros, unless it is frozen. With sharding::parameters all ranks must use the same groups of parameters. A second
/// backward of one batch may add to the gradients of other parameters only.
/// @tparam T, D, G as of param_base
template <class T, class D, class G = T>
class data_parallel final : gradient_observer {
  using sum_type = compute_type<G>;
  static_assert(group_layout::unit % piece_unit == 0);

 public:
  /// `persistent` is the context of what lives as long as the model, `transient` a step's. Throws error unless
  /// the leaves are a power of two and the ranks a power of two that divides it. Then give the parameters their values,
  /// and call take_value() for each, or take_values(). The model must not move.
  template <class Model>
  data_parallel(Model& model, communicator<D>& ranks, context<D>& persistent, context<D>& transient,
                const data_parallel_options& o)
      : ranks_(&ranks), persistent_(&persistent), transient_(&transient), options_(o) {
    if (options_.leaves == 0) options_.leaves = ranks.size();
    if (ranks.size() == 1) options_.shard = sharding::nothing;
    if (!std::has_single_bit(options_.leaves) || options_.leaves % ranks.size() != 0)
      throw error("data_parallel: the leaves (" + std::to_string(options_.leaves) + ") must be a power of two, and " +
                  std::to_string(ranks.size()) + " ranks must divide them");
    std::vector<sized_parameter> sizes;
    std::vector<param_base<T, G, D>*> parameters;
    for_each_trained(model, [&](std::string_view name, auto& p) {
      const std::string_view of = group_of_param(name);
      sizes.push_back({std::string(of.empty() ? name : of), p.size()});
      members_.push_back(member_of(p));
      parameters.push_back(&p);
    });
    layout_ = make_group_layout(sizes, ranks.size(), options_.whole_parameters);
    make_groups();
    if (shares_values())
      values_.emplace(layout_, parameters, ranks, persistent, transient, shares_parameters(), options_.group_order);
    make_gradients();
  }
  data_parallel(const data_parallel&) = delete;
  data_parallel& operator=(const data_parallel&) = delete;

  communicator<D>& ranks() const { return *ranks_; }
  const group_layout& layout() const { return layout_; }
  const data_parallel_options& options() const { return options_; }

  /// The ranges of parameters that this rank updates.
  std::vector<piece_range> own_pieces() const {
    std::vector<piece_range> own;
    for (const group_layout::piece& p : layout_.pieces)
      if (p.owner == ranks_->rank()) own.push_back({p.number, p.begin, p.size});
    return own;
  }
  /// Gives pieces, made of own_pieces(), the memory of this rank's shares, where they have one of their own.
  void attach(param_pieces<T, D, G>& pieces) {
    pieces_ = &pieces;
    attach_gradients(false);
    if (!shares_parameters()) return;
    index_t i = 0;
    for (const group_layout::piece& p : layout_.pieces)
      if (p.owner == ranks_->rank()) pieces.all()[i++].set_value_storage(values_->share(p));
  }

  /// Leaves of an update on this rank.
  index_t leaves_here() const { return options_.leaves / ranks_->size(); }
  /// The number of this rank's i-th leaf. Gradients that are not sharded are exchanged once an update, so a rank has
  /// leaves that follow each other; otherwise the ranks have neighbours, and exchange them leaf by leaf.
  index_t leaf(index_t i) const {
    return shares_gradients() ? i * ranks_->size() + ranks_->rank() : ranks_->rank() * leaves_here() + i;
  }
  /// The rank that has a leaf, and which of its leaves it is: leaf(i) on that rank.
  std::pair<index_t, index_t> place_of(index_t leaf) const {
    return shares_gradients() ? std::pair{leaf % ranks_->size(), leaf / ranks_->size()}
                              : std::pair{leaf / leaves_here(), leaf % leaves_here()};
  }

  /// Call it before the forward of a batch of this rank's i-th leaf.
  void begin_batch(tape<D>& on, index_t i, bool last_of_leaf) {
    leaf_ = i;
    const bool reduces = last_of_leaf && (shares_gradients() || i + 1 == leaves_here());
    on.observe(reduces ? this : nullptr);
    for (group& g : groups_) g.left = layout_of(g).places.size();
    for (member& m : members_) m.complete = false;
    to_reduce_ = groups_.size();
  }
  /// Call it after the backward of the last batch of this rank's i-th leaf.
  void end_leaf() {
    if (!shares_gradients() && leaf_ + 1 < leaves_here()) return merge_leaf();
    while (to_reduce_ > 0) reduce(groups_[--to_reduce_]);  // the loss may not depend on all of their parameters
  }
  /// Waits for the sums of all leaves, which then are the parameters' gradients.
  void finish() {
    for (group& g : groups_) take_sum(g);
    levels_.clear();
    attach_gradients(true);
  }
  /// After the optimizer's step: every rank gets the values that the others have updated.
  void gather_values() {
    if (values_) values_->gather();
  }
  /// Drops an update that is not finished, as every rank must then do.
  void abandon() {
    for (group& g : groups_) {
      g.sum.wait();
      g.summing = false;
      g.staging = {};
    }
    for (member& m : members_) m.staged = false;
    to_reduce_ = 0;
    under_way_.clear();
    levels_.clear();
  }

  /// Takes the value that a parameter got (by init or param.set) to where the ranks have it: call it once for each
  /// parameter before the first update, and again after values were replaced.
  void take_value(param_base<T, G, D>& p) {
    if (values_) values_->take(p);
  }
  /// take_value of all parameters.
  void take_values() {
    for (const member& m : members_) take_value(*m.param);
  }
  /// Drops the parameters that were gathered. After work outside of an update, such as validation.
  void release_values() {
    if (values_) values_->release();
  }
  /// The order in which an update uses groups of parameters, if ranks share them: empty before the first update, unless
  /// it was given. A plan has it.
  std::vector<std::size_t> group_order() const { return values_ ? values_->order() : std::vector<std::size_t>{}; }

  /// Whether ranks divide anything, so that the optimizer is one of pieces.
  bool shares_values() const { return options_.shard != sharding::nothing; }

 private:
  using param_type = param_base<T, G, D>;
  // A parameter, without its shape.
  struct member {
    param_type* param;
    const void* slot;
    void (*place_gradient)(param_type&, buffer<D>);
    void (*open_gradient)(param_type&, context<D>&);  // has its memory for a gradient, if it has none
    bool (*is_frozen)(const param_type&);
    index_t group = 0, offset = 0;
    bool staged = false;    // its gradient is in its group's staging
    bool complete = false;  // its gradient of this batch
    bool present = false;   // it had a gradient
  };
  struct group {
    index_t left = 0;   // parameters whose gradients are not complete
    index_t first = 0;  // its first element among all that this rank sums
    index_t leaf = 0;   // which of the rank's leaves it is summing
    bool summing = false;
    buffer<D> gradients;        // where slots accumulate, if ranks have all gradients
    buffer<D> staging;          // what is being summed, if ranks share them
    pending_collective<D> sum;  // last: it waits before its memory goes
  };

  bool shares_gradients() const { return options_.shard >= sharding::gradients; }
  bool shares_parameters() const { return options_.shard == sharding::parameters; }
  // Whether partial sums of 16-bit gradients are exchanged, which are float.
  bool exchanges_sums() const { return is_rounded<G> && leaves_here() > 1; }

  template <class P>
  static member member_of(P& p) {
    return {&p, &p.slot(),
            [](param_type& q, buffer<D> memory) {
              static_cast<P&>(q).slot().place(typename P::gradient_type(std::move(memory)));
            },
            [](param_type& q, context<D>& ctx) { static_cast<P&>(q).slot().open(ctx, {}); },
            [](const param_type& q) { return static_cast<const P&>(q).is_frozen(); }};
  }
  template <class E>
  static E* at(const buffer<D>& memory, index_t element) {
    if constexpr (!D::computes) return nullptr;
    else return memory ? static_cast<E*>(memory.data()) + element : nullptr;
  }
  buffer<D> zeroed(index_t n) const {
    buffer<D> made(*persistent_, n * sizeof(G), category::gradient);
    if constexpr (D::computes) device_access<D>::zero(*persistent_, made.data(), made.bytes());
    return made;
  }
  activity work(std::string_view name, index_t n) const {
    return {name, phase::update, {n, n * sizeof(G), n * sizeof(G)}};
  }

  void make_groups() {
    groups_.resize(layout_.groups.size());
    for (index_t g = 0, before = 0; g < groups_.size(); ++g) {
      const group_layout::group& l = layout_.groups[g];
      groups_[g].first = before;
      before += shares_gradients() ? l.counts[ranks_->rank()] : l.elements;
      summed_ = before;
      for (const group_layout::place& p : l.places) {
        members_[p.number].group = g;
        members_[p.number].offset = p.offset;
      }
    }
    for (index_t i = 0; i < members_.size(); ++i) numbers_.emplace(members_[i].slot, i);
  }
  void make_gradients() {
    if (shares_gradients()) {
      own_gradients_ = zeroed(summed_);
      return;
    }
    for (group& g : groups_) {
      const group_layout::group& l = layout_of(g);
      g.gradients = zeroed(l.elements);
      for (const group_layout::place& p : l.places) {
        const member& m = members_[p.number];
        m.place_gradient(*m.param, g.gradients.part(p.offset * sizeof(G), p.size * sizeof(G)));
      }
    }
  }
  const group_layout::group& layout_of(const group& g) const {
    return layout_.groups[static_cast<index_t>(&g - groups_.data())];
  }

  void complete(const void* slot) override {
    const auto found = numbers_.find(slot);
    if (found == numbers_.end()) return;
    member& m = members_[found->second];
    if (m.complete)
      throw error(
          "data_parallel: a second backward() of one batch has a gradient of a parameter that the first one had; "
          "add up the losses, or call begin_batch for each");
    m.complete = true;
    if (shares_gradients()) stage(m);
    --groups_[m.group].left;
    while (to_reduce_ > 0 && groups_[to_reduce_ - 1].left == 0) reduce(groups_[--to_reduce_]);
  }

  // The gradients of a group, complete for the rank's leaf, become part of the sum of all leaves.
  void reduce(group& g) {
    if (shares_gradients()) reduce_shares(g);
    else reduce_in_place(g);
  }
  void reduce_in_place(group& g) {
    const group_layout::group& l = layout_of(g);
    const typename context<D>::running now(*transient_, work("reduce gradients", l.elements));
    zero_missing(g);
    if (leaves_here() > 1) {
      if (exchanges_sums()) merge(at<sum_type>(levels_[0], g.first), levels_.size(), g.first, gradients(g), l.elements);
      else merge(gradients(g), levels_.size(), g.first, gradients(g), l.elements);
    }
    if (exchanges_sums()) start_sum(g, at<sum_type>(levels_[0], g.first));
    else if (ranks_->size() > 1) start_sum(g, gradients(g));
  }
  template <class E>
  void start_sum(group& g, E* from) {
    const group_layout::group& l = layout_of(g);
    const reduce_options how{.order = options_.order};
    const index_t begin = l.begin_of(ranks_->rank());
    E* const own = from == nullptr ? nullptr : from + begin;
    ranks_->tagged(static_cast<std::uint64_t>(&g - groups_.data()) + 1);
    if (options_.shard == sharding::nothing) g.sum = ranks_->all_reduce(*transient_, from, from, l.elements, how);
    else g.sum = ranks_->reduce_scatter(*transient_, from, own, l.counts, how);
    g.summing = true;
    g.leaf = leaf_;
  }
  // Takes the gradient of a parameter into the memory that its group is exchanged from.
  void stage(member& m) {
    group& g = groups_[m.group];
    if (g.summing) take_sum(g);  // of the leaf before
    if (!g.staging) {
      const index_t size = exchanges_sums() ? sizeof(sum_type) : sizeof(G);
      g.staging = buffer<D>(*transient_, layout_of(g).elements * size, category::gradient);
    }
    const index_t n = m.param->size(),
                  end = (n + group_layout::alignment - 1) / group_layout::alignment * group_layout::alignment;
    const auto to_type = [&]<class E>(E*) {
      if constexpr (D::computes) {
        E* const to = at<E>(g.staging, m.offset);
        index_t from = 0;
        if (m.param->has_gradient()) {
          from = n;
          kernel<op::convert, D>::forward(*transient_, to, m.param->gradient_data(), n, false);
        }
        if (from < end) device_access<D>::zero(*transient_, to + from, (end - from) * sizeof(E));
      }
    };
    if (exchanges_sums()) to_type(static_cast<sum_type*>(nullptr));
    else to_type(static_cast<G*>(nullptr));
    m.present = !m.is_frozen(*m.param);
    m.staged = true;
    m.param->clear_gradient();
  }
  void reduce_shares(group& g) {
    const group_layout::group& l = layout_of(g);
    const typename context<D>::running now(*transient_, work("reduce gradients", l.elements));
    for (const group_layout::place& p : l.places)
      if (!members_[p.number].staged) stage(members_[p.number]);
    for (const group_layout::place& p : l.places) members_[p.number].staged = false;
    if (exchanges_sums()) start_sum(g, at<sum_type>(g.staging, 0));
    else start_sum(g, at<G>(g.staging, 0));
    under_way_.push_back(&g);
    if (under_way_.size() > most_under_way) take_sum(*under_way_.front());
  }
  // Waits for the sum over ranks that a group has under way, and adds it to the leaves before.
  void take_sum(group& g) {
    if (!g.summing) return;
    g.summing = false;
    g.sum.wait();
    const group_layout::group& l = layout_of(g);
    const index_t begin = l.begin_of(ranks_->rank()), own = l.counts[ranks_->rank()];
    if (!shares_gradients()) {
      if (!exchanges_sums()) return;
      const bool all = options_.shard == sharding::nothing;
      const index_t first = all ? 0 : begin, n = all ? l.elements : own;
      kernel<op::convert, D>::forward(*transient_, at<G>(g.gradients, first), at<sum_type>(levels_[0], g.first + first),
                                      n, false);
      return;
    }
    under_way_.erase(std::find(under_way_.begin(), under_way_.end(), &g));
    const auto add = [&]<class E>(const E* leaf) {
      if (g.leaf + 1 == leaves_here()) merge(at<G>(own_gradients_, g.first), count_before(g.leaf), g.first, leaf, own);
      else merge(at<sum_type>(level_of(g.leaf), g.first), count_before(g.leaf), g.first, leaf, own);
    };
    if (exchanges_sums()) add(at<const sum_type>(g.staging, begin));
    else add(at<const G>(g.staging, begin));
    g.staging = {};
  }

  // Number of subtrees that leaf i completes: its trailing one bits.
  static index_t count_before(index_t leaf) { return static_cast<index_t>(std::countr_one(leaf)); }
  // The sums that the i-th leaf, which is not the last one, makes.
  buffer<D>& level_of(index_t leaf) {
    const index_t k = count_before(leaf);
    while (levels_.size() <= k) levels_.emplace_back(*transient_, summed_ * sizeof(sum_type), category::gradient);
    return levels_[k];
  }
  template <class To, class From>
  void merge(To* to, index_t before, index_t first, const From* leaf, index_t n) {
    if (n == 0) return;
    std::vector<const sum_type*> parts;
    for (index_t k = 0; k < before; ++k) parts.push_back(at<const sum_type>(levels_[k], first));
    kernel<op::merge_leaves, D>::forward(*transient_, to, parts, leaf, n);
  }
  void merge_leaf() {
    const typename context<D>::running now(*transient_, work("add leaves", summed_));
    buffer<D>& to = level_of(leaf_);
    for (group& g : groups_) {
      zero_missing(g);
      merge(at<sum_type>(to, g.first), count_before(leaf_), g.first, gradients(g), layout_of(g).elements);
    }
    for (const member& m : members_) m.param->clear_gradient();
  }
  G* gradients(const group& g) const { return at<G>(g.gradients, 0); }
  void zero_missing(const group& g) {
    for (const group_layout::place& p : layout_of(g).places) {
      const member& m = members_[p.number];
      if (m.param->has_gradient()) continue;
      if (!m.is_frozen(*m.param)) m.open_gradient(*m.param, *transient_);
      if constexpr (D::computes) device_access<D>::zero(*transient_, at<G>(g.gradients, p.offset), p.size * sizeof(G));
    }
  }
  // Tells the pieces which gradients there are.
  void attach_gradients(bool present) {
    if (pieces_ == nullptr || !shares_gradients()) return;
    for (index_t n = 0; n < members_.size(); ++n)
      pieces_->wholes()[n].set_gradient_storage(nullptr, present && members_[n].present);
    index_t i = 0;
    for (const group_layout::piece& p : layout_.pieces) {
      if (p.owner != ranks_->rank()) continue;
      pieces_->all()[i++].set_gradient_storage(at<const G>(own_gradients_, layout_.place_in_shares(p)),
                                               present && members_[p.number].present);
    }
  }

  static constexpr std::size_t most_under_way = 2;  // groups whose sums are; one more is being staged

  communicator<D>* ranks_;
  context<D>*persistent_, *transient_;
  data_parallel_options options_;
  group_layout layout_;
  std::vector<member> members_;
  std::vector<buffer<D>> levels_;  // sums of 2^k leaves of this update
  buffer<D> own_gradients_;        // of the rank's shares, if gradients are shared
  std::vector<group> groups_;
  std::unordered_map<const void*, index_t> numbers_;  // of parameters, by their slots
  std::vector<group*> under_way_;                     // in the order of their collectives
  param_pieces<T, D, G>* pieces_ = nullptr;
  std::optional<shared_values<T, D, G>> values_;  // if ranks share anything
  index_t summed_ = 0;                            // elements of sums
  index_t to_reduce_ = 0;                         // groups of this batch, the first ones
  index_t leaf_ = 0;
};

}  // namespace gradus
