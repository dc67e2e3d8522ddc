#pragma once
// What training steps have in common, whatever the model and its batches: options, the optimizer, the loss scale, ranks
// that share the work, and the step's figures on their way to the host.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../autodiff/backward.hpp"
#include "../autodiff/checkpoint/chain.hpp"
#include "../autodiff/tape.hpp"
#include "../core/config.hpp"
#include "../model/init.hpp"
#include "../model/parameters.hpp"
#include "../nn/adapter.hpp"
#include "../optim/adamw.hpp"
#include "../optim/loss_scaler.hpp"
#include "../optim/optimizer.hpp"
#include "../optim/param_pieces.hpp"
#include "../optim/update_parts.hpp"
#include "../ranks/communicator.hpp"
#include "../tensor/creation.hpp"
#include "../tensor/staging_buffer.hpp"
#include "data_parallel.hpp"
#include "spike_filter.hpp"

namespace gradus {

/// What model_training is asked for.
struct training_options {
  double dropout = 0;  ///< of the model, if it has that member
  double clip = 1;     ///< largest gradient norm; 0: no limit
  double skip_spikes =
      0;  ///< standard deviations above the running mean of norms beyond which an update is skipped; 0: none
  int accumulate = 1;                            ///< micro-batches a step, on all ranks together
  std::uint64_t seed = 1;                        ///< of the parameters, dropout and rounding
  adamw_options adamw = {};                      ///< other optimizers take its lr and weight_decay
  region_schedule regions = {};                  ///< what backward recomputes
  std::vector<std::string> adapted_layers = {};  ///< names of the linear layers that get adapters, if the model has any
  nn::adapter_settings adapter = {};
  int ranks = 1, rank = 0;
  int leaves = 1;  ///< data_parallel_options::leaves; divides `accumulate`
  sharding shard = sharding::nothing;
  sum_order order = sum_order::tree;
  std::vector<std::size_t> group_order = {};          ///< of data_parallel; from a plan
  std::vector<std::size_t>* learned_order = nullptr;  ///< gets that order after an update, unless it is null

  /// Whether ranks or leaves exchange gradients.
  constexpr bool is_parallel() const { return ranks > 1 || leaves > 1; }
  constexpr int batches_here() const { return accumulate / ranks; }  ///< micro-batches a step on this rank
};

/// Whether an optimizer (Muon) updates some parameters by an AdamW of its own.
template <class Settings>
inline constexpr bool has_adamw_inside = requires(Settings s) { s.adamw; };

/// The default learning rate of an optimizer; 1e-2 if its lr is 0.
template <class Settings>
constexpr double usual_rate() {
  return Settings{}.lr > 0 ? Settings{}.lr : 1e-2;
}
/// Sets the learning rate, and in proportion the rate of an AdamW inside.
template <class Settings>
constexpr void set_rate(Settings& s, double lr) {
  s.lr = lr;
  if constexpr (has_adamw_inside<Settings>) s.adamw.lr = lr * (Settings{}.adamw.lr / Settings{}.lr);
}
/// The options as settings of an optimizer; one without momentum (SGD) gets 0.9.
template <class Settings>
constexpr Settings settings_of(const training_options& o) {
  if constexpr (std::is_same_v<Settings, adamw_options>) {
    return o.adamw;
  } else {
    Settings s;
    set_rate(s, o.adamw.lr);
    s.weight_decay = o.adamw.weight_decay;
    if constexpr (requires { s.momentum; })
      if (s.momentum == 0) s.momentum = 0.9;
    return s;
  }
}

namespace detail {

// A std::unique_ptr for constant expressions.
template <class T>
class owner {
 public:
  constexpr owner() = default;
  constexpr explicit owner(T* what) : what_(what) {}
  constexpr owner(owner&& other) noexcept : what_(std::exchange(other.what_, nullptr)) {}
  constexpr owner& operator=(owner&& other) noexcept {
    std::swap(what_, other.what_);
    return *this;
  }
  constexpr ~owner() { delete what_; }
  constexpr T* get() const { return what_; }
  constexpr T* operator->() const { return what_; }
  constexpr T& operator*() const { return *what_; }
  constexpr explicit operator bool() const { return what_ != nullptr; }

 private:
  T* what_ = nullptr;
};

}  // namespace detail

/// A model and what trains it. A derived class has the batches: for each it calls begin_batch(), forward and
/// add_gradients(), then update(). On gradus::meta the same code computes nothing and tells what memory a step takes.
/// @tparam Network   model; its members `dropout` and `regions`, if it has them, are set. Muon takes the matrices under
///                   the name `blocks`
/// @tparam D         device
/// @tparam P         precision policy
template <class Network, class D, class P, template <class, class, class> class Optimizer>
class model_training {
 public:
  using device = D;
  using network = Network;
  using optimizer_type = Optimizer<typename P::store, D, typename P::gradient>;

  /// Whether the loss is scaled before backward: many gradients are below 6e-8, the least positive number of f16.
  static constexpr bool scales_loss = std::is_same_v<typename P::compute, f16>;

  network net;

 private:
  using T = typename P::store;
  using G = typename P::gradient;
  using pieces_type = param_pieces<T, D, G>;
  using parallel_type = data_parallel<T, D, G>;
  // In the order of construction: gradients are exchanged by the ranks, and the optimizer is of this rank's pieces.
  detail::owner<communicator<D>> own_ranks_;
  detail::owner<parallel_type> parallel_;
  detail::owner<pieces_type> pieces_;

 public:
  optimizer_type optimizer;
  spike_filter spikes;  ///< the norms so far, with skip_spikes

  using loss_type = typename P::reduce;
  using losses = staging_buffer<loss_type, D>;
  /// The loss of a step and its gradients' norm, on their way to the host.
  class step_loss {
    friend model_training;
    losses* values_;
    const std::vector<index_t>* order_;
    const std::vector<double>* shares_;
    staging_buffer<double, D>* norm_;
    constexpr step_loss(losses& values, const std::vector<index_t>& order, const std::vector<double>& shares,
                        staging_buffer<double, D>* norm)
        : values_(&values), order_(&order), shares_(&shares), norm_(norm) {}

   public:
    /// Waits for the mean loss of the step's targets, in nats. Valid until the second send_loss() after it.
    constexpr double value() const {
      const auto each = values_->values();
      double sum = 0;
      for (index_t number = 0; number < order_->size(); ++number)
        sum += static_cast<double>(static_cast<float>(each[(*order_)[number]])) * share(*shares_, number) /
               static_cast<double>(each.size());
      const double all = mean_share(*shares_);
      return all > 0 ? sum / all : sum;
    }
    /// Waits for the norm of the step's gradients before they were clipped; NaN if nothing asked for it.
    constexpr double norm() const {
      return norm_ == nullptr ? std::numeric_limits<double>::quiet_NaN() : norm_->values()[0];
    }
  };

  /// The number, among the step's micro-batches, of micro-batch i of this rank.
  constexpr int number_of(int i) const {
    if (!parallel_) return i;
    const int each = batches_of_leaf();
    return static_cast<int>(parallel_->leaf(static_cast<index_t>(i / each))) * each + i % each;
  }
  /// Submits the copy of the step's loss, of all ranks' micro-batches, to the host.
  constexpr step_loss send_loss() {
    turn_ = 1 - turn_;
    losses& to = losses_[turn_];
    if (options_.ranks == 1) {
      for (index_t i = 0; i < loss_of_.size(); ++i) to.download(loss_of_[i], i);
    } else {
      to.download(gather_losses(), order_.size(), 0);
    }
    sent_shares_[turn_] = shares_;
    staging_buffer<double, D>* const norm = measures_norm() ? &norms_[turn_] : nullptr;
    if (norm != nullptr) norm->download(norm_);
    return step_loss(to, order_, sent_shares_[turn_], norm);
  }
  /// Measures the norm of the gradients and takes the optimizer's step, whose kernel clips them as it reads them
  /// (optim/step_inputs.hpp). With a loss scale, a step whose gradients overflowed changes nothing. With skip_spikes it
  /// waits for the norm, and skips the step if `spikes` says so.
  constexpr void update() {
    if (parallel_) parallel_->finish();
    if constexpr (scales_loss) optimizer.unscale(scaler_);
    if (const double all = mean_share(shares_); all > 0 && all != 1) optimizer.scale_gradients(1 / all);
    bool spike = false;
    if (measures_norm()) {
      const auto norm =
          optimizer.clip(transient_, options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity());
      norm.copy_to(transient_, norm_);
      // A scaled loss that overflows is the scaler's affair.
      if (options_.skip_spikes > 0) spike = spikes.takes(norm.value(), options_.skip_spikes, scales_loss);
    }
    if (spike) {
      optimizer.clear_gradients();
    } else {
      optimizer.step(*states_);
      scaler_.update(persistent_);
    }
    if (parallel_) parallel_->gather_values();
    if (options_.learned_order != nullptr) *options_.learned_order = parallel_->group_order();
    batches_before_ += static_cast<std::uint32_t>(options_.accumulate);
  }
  /// Says, before the step's first backward, which share of a micro-batch's targets count, by its number among all
  /// ranks' micro-batches: its loss is the mean of these, and the update minimises the mean of all of the step. Unless it is
  /// called, all count.
  constexpr void set_share(int number, double share) {
    shares_.resize(static_cast<std::size_t>(options_.accumulate), 1);
    shares_[static_cast<std::size_t>(number)] = share;
  }
  /// Call it after a parameter got another value, such as one read from a file.
  constexpr void take_value(auto& p) {
    if (parallel_) parallel_->take_value(p);
  }
  /// Whether the optimizer's states may be in a file.
  static constexpr bool divides_updates = requires(optimizer_type& one, update_parts* by) { one.divide_by(by); };
  /// Allocates the optimizer's states there, and updates part by part. Call it before the first step and before a
  /// checkpoint is read; both must outlive this.
  void keep_states(context<D>& in, update_parts& by)
    requires divides_updates
  {
    states_ = &in;
    optimizer.divide_by(&by);
  }
  context<D>& states() const { return *states_; }
  /// Whether ranks share optimizer states, so that the optimizer is one of pieces() (null otherwise), and whether they
  /// share parameters.
  constexpr bool shares_states() const { return static_cast<bool>(pieces_); }
  constexpr bool shares_parameters() const { return shares_states() && options_.shard == sharding::parameters; }
  const pieces_type* pieces() const { return pieces_.get(); }
  /// The ranks that exchange gradients; null: this one is alone.
  communicator<D>* ranks() const { return parallel_ ? &parallel_->ranks() : nullptr; }
  constexpr const training_options& options() const { return options_; }
  /// Uses all tensors of the model in their order, which gathers parameters that ranks share. Ends with
  /// release_values().
  void read_values() {
    for_each_trained_tensor(net, [](std::string_view, const auto& p) { p.value().storage().use(); });
    release_values();
  }
  /// Frees parameters that were gathered for work outside of an update.
  constexpr void release_values() {
    if (parallel_) parallel_->release_values();
  }
  constexpr gradus::tape<D>& tape() { return tape_; }
  constexpr double loss_scale() const { return scaler_.now(); }
  /// Steps without overflow since the loss scale changed.
  int clean_steps() const {
    if constexpr (scales_loss) return scaler_.clean_steps();
    else return 0;
  }
  /// Restores random draws and the loss scale of a run that has taken `batches` micro-batches.
  void resume_after(std::uint32_t batches, [[maybe_unused]] double scale, [[maybe_unused]] int clean) {
    tape_.set_random(options_.seed, batches);
    batches_before_ = batches;
    if constexpr (scales_loss) {
      scaler_.set_value(static_cast<float>(scale));
      scaler_.set_clean_steps(clean);
    }
  }
  /// Drops the gradients of a step that is not finished.
  constexpr void abandon() {
    tape_.clear();
    if (parallel_) parallel_->abandon();
    optimizer.clear_gradients();
  }

 protected:
  context<D>& persistent_;
  context<D>& transient_;
  context<D>* states_ = &persistent_;  // of the optimizer's states
  const training_options options_;

  /// `persistent` is the context of what lives as long as the model, `transient` a step's.
  /// @param ranks the communicator of o.ranks ranks; null: a plan's, or this rank is alone
  /// @param first makes the parameters' first values, as init() takes it
  constexpr model_training(context<D>& persistent, context<D>& transient, const training_options& o,
                           communicator<D>* ranks, const auto& first)
      : parallel_(make_parallel(persistent, transient, o, ranks, first)),
        optimizer(make_optimizer(o)),
        persistent_(persistent),
        transient_(transient),
        options_(o),
        tape_(transient, o.seed),
        scaler_(persistent),
        losses_{losses(persistent, batches(o)), losses(persistent, batches(o))},
        norm_(persistent, category::input),
        norms_{staging_buffer<double, D>(persistent, 1), staging_buffer<double, D>(persistent, 1)} {
    for (int i = 0; i < o.batches_here(); ++i) loss_of_.emplace_back(persistent, category::input);
    set_order();
    if (static_cast<bool>(pieces_)) optimizer.share_norm(parallel_->ranks());
    // In bf16, updates below 1/256 of a value would round to nothing.
    if constexpr (rounds_stochastically) optimizer.set_rounding(rounding::stochastic, o.seed);
  }
  model_training(const model_training&) = delete;
  model_training& operator=(const model_training&) = delete;
  constexpr ~model_training() = default;

  /// Call it before the forward of micro-batch i.
  constexpr void begin_batch(int i) {
    if (!parallel_) return;
    const int each = batches_of_leaf();
    tape_.set_random(options_.seed, batches_before_ + static_cast<std::uint32_t>(number_of(i)));
    parallel_->begin_batch(tape_, static_cast<index_t>(i / each), (i + 1) % each == 0);
  }
  /// Submits backward of the loss of micro-batch i, which adds to the gradients of the others.
  constexpr void add_gradients(int i, const auto& loss) { add_gradients(i, loss, loss); }
  /// Submits backward of `minimised`, an auxiliary loss included, where the run reports `loss` without it.
  constexpr void add_gradients(int i, const auto& loss, const auto& minimised) {
    static_assert(std::is_same_v<value_of_t<decltype(loss)>, typename P::reduce>);
    auto& kept = loss_of_[static_cast<std::size_t>(i)];
    if constexpr (D::computes) device_access<D>::copy(transient_, kept.data(), loss.value().data(), kept.bytes);
    backward(scaler_.scale(minimised), static_cast<float>(share(shares_, static_cast<index_t>(number_of(i))) /
                                                          static_cast<double>(options_.accumulate)));
    if (parallel_ && (i + 1) % batches_of_leaf() == 0) parallel_->end_leaf();
  }
  /// Waits for the loss of micro-batch i.
  constexpr float loss_of(int i) const { return static_cast<float>(item(loss_of_[static_cast<std::size_t>(i)])); }

 private:
  constexpr bool measures_norm() const { return options_.clip > 0 || options_.skip_spikes > 0 || scales_loss; }
  static constexpr index_t batches(const training_options& o) { return static_cast<index_t>(o.accumulate); }
  static constexpr double share(const std::vector<double>& shares, index_t i) { return shares.empty() ? 1 : shares[i]; }
  static constexpr double mean_share(const std::vector<double>& shares) {
    double sum = 0;
    for (index_t i = 0; i < shares.size(); ++i) sum += shares[i];
    return shares.empty() ? 1 : sum / static_cast<double>(shares.size());
  }

  static constexpr bool rounds_stochastically =
      std::is_same_v<typename P::store, bf16> && !requires { requires optimizer_type::compensated; };

  // Gives the model its first values. With several ranks or leaves, returns what they exchange.
  constexpr detail::owner<parallel_type> make_parallel(context<D>& persistent, context<D>& transient,
                                                       const training_options& o, communicator<D>* ranks,
                                                       const auto& first) {
    if constexpr (requires { net.dropout; }) net.dropout = o.dropout;
    if constexpr (requires { net.regions; }) net.regions = o.regions;
    if (!o.adapted_layers.empty()) {
      const auto chosen = [&](std::string_view name) {
        return std::ranges::find(o.adapted_layers, name) != o.adapted_layers.end();
      };
      nn::add_adapters(net, chosen, o.adapter);
    }
    if (!o.is_parallel()) {
      init(net, persistent, first);
      return {};
    }
    if (ranks == nullptr) {
      own_ranks_ = detail::owner<communicator<D>>(make_own_ranks(o));
      ranks = own_ranks_.get();
    }
    auto* const made = new parallel_type(net, *ranks, persistent, transient,
                                         {.leaves = static_cast<index_t>(o.leaves),
                                          .shard = o.shard,
                                          .order = o.order,
                                          .whole_parameters = optimizer_type::needs_whole_parameters,
                                          .group_order = o.group_order});
    init(net, persistent, first, [made](auto& p) { made->take_value(p); });
    return detail::owner<parallel_type>(made);
  }
  static communicator<D>* make_own_ranks(const training_options& o) {
    if constexpr (D::computes) return new single_communicator<D>;
    else return new meta_communicator<D>(static_cast<index_t>(o.rank), static_cast<index_t>(o.ranks));
  }
  // The optimizer of the model, or of the pieces of it that are this rank's.
  constexpr optimizer_type make_optimizer(const training_options& o) {
    const auto settings = settings_of<decltype(optimizer_type::options)>(o);
    const auto of_parameter = [](const param_info& p) {
      param_settings all = decay_matrices(p);
      if constexpr (has_adamw_inside<decltype(optimizer_type::options)>)  // Muon for the blocks' matrices
        all.orthogonal = p.name.starts_with("blocks.") && p.rank == 2;
      return all;
    };
    if (!parallel_ || !parallel_->shares_values()) return optimizer_type(net, settings, of_parameter);
    pieces_ = detail::owner<pieces_type>(new pieces_type(net, parallel_->own_pieces()));
    parallel_->attach(*pieces_);
    return optimizer_type(*pieces_, settings, of_parameter);
  }
  constexpr int batches_of_leaf() const { return options_.accumulate / options_.leaves; }
  // Where send_loss() puts the losses: rank by rank.
  constexpr void set_order() {
    const auto all = static_cast<index_t>(options_.accumulate), here = loss_of_.size();
    for (index_t number = 0; number < all; ++number) {
      order_.push_back(number);
      if (!parallel_) continue;
      const auto each = static_cast<index_t>(batches_of_leaf());
      const auto [rank, leaf] = parallel_->place_of(number / each);
      order_.back() = rank * here + leaf * each + number % each;
    }
    if (options_.ranks > 1) all_losses_ = buffer<D>(persistent_, all * sizeof(loss_type), category::input);
  }
  // The losses of all ranks' micro-batches, on the device.
  const loss_type* gather_losses() {
    if constexpr (!D::computes) return nullptr;
    else {
      auto* const to = static_cast<loss_type*>(all_losses_.data());
      loss_type* const own = to + parallel_->ranks().rank() * loss_of_.size();
      for (index_t i = 0; i < loss_of_.size(); ++i)
        device_access<D>::copy(transient_, own + i, std::as_const(loss_of_[i]).data(), sizeof(loss_type));
      const std::vector<index_t> each(parallel_->ranks().size(), loss_of_.size());
      parallel_->ranks().all_gather(transient_, own, to, each).wait();
      return to;
    }
  }

  struct no_scaler {
    constexpr explicit no_scaler(context<D>&) {}
    constexpr const auto& scale(const auto& loss) const { return loss; }
    constexpr void update(context<D>&) {}
    constexpr double now() const { return 1; }
  };
  struct f16_scaler : loss_scaler<D> {
    using loss_scaler<D>::loss_scaler;
    constexpr double now() const { return static_cast<double>(item(this->value())); }
  };

  gradus::tape<D> tape_;
  std::conditional_t<scales_loss, f16_scaler, no_scaler> scaler_;
  std::vector<tensor<loss_type, shape<>, D>> loss_of_;  // of this rank's micro-batches
  buffer<D> all_losses_;                                // of all ranks'
  std::vector<index_t> order_;                          // where each micro-batch's loss is among them
  std::uint32_t batches_before_ = 0;                    // micro-batches of the steps before
  std::array<losses, 2> losses_;                        // by turns: one is read while the other is on its way
  std::vector<double> shares_;                          // of targets that count, by number; empty: all
  std::array<std::vector<double>, 2> sent_shares_;      // of the losses
  tensor<double, shape<>, D> norm_;                     // of the last step's gradients
  std::array<staging_buffer<double, D>, 2> norms_;      // by turns, as losses_
  index_t turn_ = 0;
};

/// A whole step on the micro-batches that a training has: for each t.backward(i), which is forward and backward, then
/// the update. A plan traces it, the loop runs it, a graph captures it. Calls before_update() when all gradients are
/// there; ends before that, with false, once stopped() is true.
constexpr bool take_step(auto& t, const auto& stopped, const auto& before_update) {
  for (int i = 0; i < t.options().batches_here(); ++i) {
    if (i > 0 && stopped()) return false;
    t.backward(i);
  }
  before_update();
  t.update();
  return true;
}
constexpr void take_step(auto& t) {
  take_step(
      t, [] { return false; }, [] {});
}

}  // namespace gradus
