#pragma once
// What training steps have in common, whatever the model and its batches: options, the optimizer, the loss scale, ranks
// that share the work, and losses on their way to the host.

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradus/gradus.hpp>
#include <gradus/train/data_parallel.hpp>

namespace gpt {

namespace gr = gradus;

struct step_options {
  double dropout = 0;
  double clip = 1;     ///< largest gradient norm; 0: no limit
  int accumulate = 1;  ///< micro-batches a step, on all ranks together
  std::uint64_t seed = 1;
  gr::adamw_options adamw = {};      ///< other optimizers take its lr and weight_decay
  gr::region_schedule regions = {};  ///< what backward recomputes
  int ranks = 1, rank = 0;
  int leaves = 1;  ///< gr::data_parallel_options::leaves; divides `accumulate`
  gr::sharding shard = gr::sharding::nothing;
  gr::sum_order order = gr::sum_order::tree;
  std::vector<std::size_t> group_order = {};          ///< of gr::data_parallel; from a plan
  std::vector<std::size_t>* learned_order = nullptr;  ///< gets that order after an update, unless it is null

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
template <class Settings>
constexpr Settings settings_of(const step_options& o) {
  if constexpr (std::is_same_v<Settings, gr::adamw_options>) {
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

/// A model and what trains it. A derived class has the batches: it calls add_gradients() for each, then update().
/// @tparam Network   model with the members `dropout` and `regions`, and blocks under the name `blocks`
/// @tparam D         device
/// @tparam P         precision policy
template <class Network, class D, class P, template <class, class, class> class Optimizer>
class model_training {
 public:
  using device = D;
  using network = Network;
  using optimizer_type = Optimizer<typename P::store, D, typename P::gradient>;

  /// Whether the loss is scaled before backward: many gradients are below 6e-8, the least positive number of f16.
  static constexpr bool scales_loss = std::is_same_v<typename P::compute, gr::f16>;

  network net;

 private:
  using T = typename P::store;
  using G = typename P::gradient;
  using pieces_type = gr::param_pieces<T, D, G>;
  using parallel_type = gr::data_parallel<T, D, G>;
  // Pointers, which a constant expression may have: in it there is one rank.
  gr::communicator<D>* own_ranks_ = nullptr;
  parallel_type* parallel_ = nullptr;
  pieces_type* pieces_ = nullptr;

 public:
  optimizer_type optimizer;

  using loss_type = typename P::reduce;
  using losses = gr::staging_buffer<loss_type, D>;
  /// The loss of a step, on its way to the host.
  class step_loss {
    friend model_training;
    losses* values_;
    const std::vector<gr::index_t>* order_;
    const std::vector<double>* shares_;
    constexpr step_loss(losses& values, const std::vector<gr::index_t>& order, const std::vector<double>& shares)
        : values_(&values), order_(&order), shares_(&shares) {}

   public:
    /// Waits for the mean loss of the step's targets, in nats. Valid until the second send_loss() after it.
    constexpr double value() const {
      const auto each = values_->values();
      double sum = 0;
      for (const gr::index_t i : *order_)
        sum += static_cast<double>(static_cast<float>(each[i])) * share(*shares_, i) / static_cast<double>(each.size());
      const double all = mean_share(*shares_);
      return all > 0 ? sum / all : sum;
    }
  };

  /// The number, among the step's micro-batches, of micro-batch i of this rank.
  constexpr int number_of(int i) const {
    if (parallel_ == nullptr) return i;
    const int each = batches_of_leaf();
    return static_cast<int>(parallel_->leaf(static_cast<gr::index_t>(i / each))) * each + i % each;
  }
  /// Submits the copy of the step's loss, of all ranks' micro-batches, to the host.
  constexpr step_loss send_loss() {
    turn_ = 1 - turn_;
    losses& to = losses_[turn_];
    if (options_.ranks == 1) {
      for (gr::index_t i = 0; i < loss_of_.size(); ++i) to.download(loss_of_[i], i);
    } else {
      to.download(gather_losses(), order_.size(), 0);
    }
    sent_shares_[turn_] = shares_;
    return step_loss(to, order_, sent_shares_[turn_]);
  }
  /// Measures the norm of the gradients and takes the optimizer's step, whose kernel clips them as it reads them
  /// (optim/step_inputs.hpp). With a loss scale, a step whose gradients overflowed changes nothing.
  constexpr void update() {
    if (parallel_ != nullptr) parallel_->finish();
    if constexpr (scales_loss) optimizer.unscale(scaler_);
    if (const double all = mean_share(shares_); all > 0 && all != 1) optimizer.scale_gradients(1 / all);
    if (options_.clip > 0 || scales_loss)
      optimizer.clip(transient_, options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity());
    optimizer.step(persistent_);
    scaler_.update(persistent_);
    if (parallel_ != nullptr) parallel_->gather_values();
    if (options_.learned_order != nullptr) *options_.learned_order = parallel_->group_order();
    batches_before_ += static_cast<std::uint32_t>(options_.accumulate);
  }
  /// Call it after a parameter got another value, such as one read from a file.
  constexpr void take_value(auto& p) {
    if (parallel_ != nullptr) parallel_->take_value(p);
  }
  /// Whether ranks share optimizer states, so that the optimizer is one of pieces(), and whether they share parameters.
  constexpr bool shares_states() const { return pieces_ != nullptr; }
  constexpr bool shares_parameters() const { return shares_states() && options_.shard == gr::sharding::parameters; }
  const pieces_type& pieces() const { return *pieces_; }
  /// Uses all tensors of the model in their order, which gathers parameters that ranks share. Ends with
  /// release_values().
  void read_values() {
    gr::for_each_tensor(net, [](std::string_view, const auto& p) { p.value().storage().use(); });
    release_values();
  }
  /// Frees parameters that were gathered for work outside of an update.
  constexpr void release_values() {
    if (parallel_ != nullptr) parallel_->release_values();
  }
  constexpr gr::tape<D>& tape() { return tape_; }
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
    if (parallel_ != nullptr) parallel_->abandon();
    optimizer.clear_gradients();
  }

 protected:
  gr::context<D>& persistent_;
  gr::context<D>& transient_;
  const step_options options_;

  /// @param ranks the communicator of o.ranks ranks; null: a plan's, or this rank is alone
  constexpr model_training(gr::context<D>& persistent, gr::context<D>& transient, const step_options& o,
                           gr::communicator<D>* ranks = nullptr)
      : parallel_(make_parallel(persistent, transient, o, ranks)),
        optimizer(make_optimizer(o)),
        persistent_(persistent),
        transient_(transient),
        options_(o),
        tape_(transient, o.seed),
        scaler_(persistent),
        losses_{losses(persistent, batches(o)), losses(persistent, batches(o))} {
    for (int i = 0; i < o.batches_here(); ++i) loss_of_.emplace_back(persistent, gr::category::input);
    set_order();
    if (pieces_ != nullptr) optimizer.share_norm(parallel_->ranks());
    // In bf16, updates below 1/256 of a value would round to nothing.
    if constexpr (rounds_stochastically) optimizer.set_rounding(gr::rounding::stochastic, o.seed);
  }
  model_training(const model_training&) = delete;
  model_training& operator=(const model_training&) = delete;
  constexpr ~model_training() {
    delete pieces_;
    delete parallel_;
    delete own_ranks_;
  }

  /// Says, before its backward, which share of micro-batch i's targets count: its loss is the mean of these, and the
  /// update minimises the mean of all of the step. Unless it is called, all count.
  constexpr void set_share(int i, double share) {
    shares_.resize(loss_of_.size(), 1);
    shares_[static_cast<std::size_t>(i)] = share;
  }
  /// Call it before the forward of micro-batch i.
  constexpr void begin_batch(int i) {
    if (parallel_ == nullptr) return;
    const int each = batches_of_leaf();
    tape_.set_random(options_.seed, batches_before_ + static_cast<std::uint32_t>(number_of(i)));
    parallel_->begin_batch(tape_, static_cast<gr::index_t>(i / each), (i + 1) % each == 0);
  }
  /// Submits backward of the loss of micro-batch i, which adds to the gradients of the others.
  constexpr void add_gradients(int i, const auto& loss) { add_gradients(i, loss, loss); }
  /// Submits backward of `minimised`, an auxiliary loss included, where the run reports `loss` without it.
  constexpr void add_gradients(int i, const auto& loss, const auto& minimised) {
    static_assert(std::is_same_v<gr::value_of_t<decltype(loss)>, typename P::reduce>);
    auto& kept = loss_of_[static_cast<std::size_t>(i)];
    if constexpr (D::computes) gr::device_access<D>::copy(transient_, kept.data(), loss.value().data(), kept.bytes);
    gr::backward(scaler_.scale(minimised), static_cast<float>(share(shares_, static_cast<gr::index_t>(i)) /
                                                              static_cast<double>(options_.accumulate)));
    if (parallel_ != nullptr && (i + 1) % batches_of_leaf() == 0) parallel_->end_leaf();
  }
  /// Waits for the loss of micro-batch i.
  constexpr float loss_of(int i) const { return static_cast<float>(gr::item(loss_of_[static_cast<std::size_t>(i)])); }

 private:
  static constexpr gr::index_t batches(const step_options& o) { return static_cast<gr::index_t>(o.accumulate); }
  static constexpr double share(const std::vector<double>& shares, gr::index_t i) {
    return shares.empty() ? 1 : shares[i];
  }
  static constexpr double mean_share(const std::vector<double>& shares) {
    double sum = 0;
    for (const double s : shares) sum += s;
    return shares.empty() ? 1 : sum / static_cast<double>(shares.size());
  }

  static constexpr bool rounds_stochastically =
      std::is_same_v<typename P::store, gr::bf16> && !requires { requires optimizer_type::compensated; };

  // Gives the model its first values. With several ranks or leaves, returns what they exchange.
  constexpr parallel_type* make_parallel(gr::context<D>& persistent, gr::context<D>& transient, const step_options& o,
                                         gr::communicator<D>* ranks) {
    net.dropout = o.dropout;
    net.regions = o.regions;
    const gr::normal_init start{.seed = o.seed, .stddev = 0.02};
    if (!o.is_parallel()) {
      gr::init(net, persistent, start);
      return nullptr;
    }
    if (ranks == nullptr) ranks = own_ranks_ = make_own_ranks(o);
    auto* const made = new parallel_type(net, *ranks, persistent, transient,
                                         {.leaves = static_cast<gr::index_t>(o.leaves),
                                          .shard = o.shard,
                                          .order = o.order,
                                          .whole_parameters = optimizer_type::needs_whole_parameters,
                                          .group_order = o.group_order});
    gr::init(net, persistent, start, [made](auto& p) { made->take_value(p); });
    return made;
  }
  static gr::communicator<D>* make_own_ranks(const step_options& o) {
    if constexpr (D::computes) return new gr::single_communicator<D>;
    else return new gr::meta_communicator<D>(static_cast<gr::index_t>(o.rank), static_cast<gr::index_t>(o.ranks));
  }
  // The optimizer of the model, or of the pieces of it that are this rank's.
  constexpr optimizer_type make_optimizer(const step_options& o) {
    const auto settings = settings_of<decltype(optimizer_type::options)>(o);
    const auto of_parameter = [](const gr::param_info& p) {
      gr::param_settings all = gr::decay_matrices(p);
      if constexpr (has_adamw_inside<decltype(optimizer_type::options)>)  // Muon for the blocks' matrices
        all.orthogonal = p.name.starts_with("blocks.") && p.rank == 2;
      return all;
    };
    if (parallel_ == nullptr || !parallel_->shares_values()) return optimizer_type(net, settings, of_parameter);
    pieces_ = new pieces_type(net, parallel_->own_pieces());
    parallel_->attach(*pieces_);
    return optimizer_type(*pieces_, settings, of_parameter);
  }
  constexpr int batches_of_leaf() const { return options_.accumulate / options_.leaves; }
  // Where send_loss() puts the losses: rank by rank.
  constexpr void set_order() {
    const auto all = static_cast<gr::index_t>(options_.accumulate), here = loss_of_.size();
    for (gr::index_t number = 0; number < all; ++number) {
      order_.push_back(number);
      if (parallel_ == nullptr) continue;
      const auto each = static_cast<gr::index_t>(batches_of_leaf());
      const auto [rank, leaf] = parallel_->place_of(number / each);
      order_.back() = rank * here + leaf * each + number % each;
    }
    if (options_.ranks > 1) all_losses_ = gr::buffer<D>(persistent_, all * sizeof(loss_type), gr::category::input);
  }
  // The losses of all ranks' micro-batches, on the device.
  const loss_type* gather_losses() {
    if constexpr (!D::computes) return nullptr;
    else {
      auto* const to = static_cast<loss_type*>(all_losses_.data());
      loss_type* const own = to + parallel_->ranks().rank() * loss_of_.size();
      for (gr::index_t i = 0; i < loss_of_.size(); ++i)
        gr::device_access<D>::copy(transient_, own + i, std::as_const(loss_of_[i]).data(), sizeof(loss_type));
      const std::vector<gr::index_t> each(parallel_->ranks().size(), loss_of_.size());
      parallel_->ranks().all_gather(transient_, own, to, each).wait();
      return to;
    }
  }

  struct no_scaler {
    constexpr explicit no_scaler(gr::context<D>&) {}
    constexpr const auto& scale(const auto& loss) const { return loss; }
    constexpr void update(gr::context<D>&) {}
    constexpr double now() const { return 1; }
  };
  struct f16_scaler : gr::loss_scaler<D> {
    using gr::loss_scaler<D>::loss_scaler;
    constexpr double now() const { return static_cast<double>(gr::item(this->value())); }
  };

  gr::tape<D> tape_;
  std::conditional_t<scales_loss, f16_scaler, no_scaler> scaler_;
  std::vector<gr::tensor<loss_type, gr::shape<>, D>> loss_of_;  // of this rank's micro-batches
  gr::buffer<D> all_losses_;                                    // of all ranks'
  std::vector<gr::index_t> order_;                              // where each micro-batch's loss is among them
  std::uint32_t batches_before_ = 0;                            // micro-batches of the steps before
  std::array<losses, 2> losses_;                                // by turns: one is read while the other is on its way
  std::vector<double> shares_;                                  // of targets that count; empty: all
  std::array<std::vector<double>, 2> sent_shares_;              // of the losses
  gr::index_t turn_ = 0;
};

}  // namespace gpt
