#pragma once
// The training step on preferences: pairs of answers to a prompt, of which one is the better.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/gradus.hpp>
#include <gradus/train/model_training.hpp>

#include "micro_batch.hpp"
#include "model.hpp"

namespace gpt {

/// Two answers, with their prompt: the better one, and the worse one.
template <class Answer>
struct preference {
  Answer chosen, rejected;
};

/// Trains adapters so that a model prefers better answers: "Direct Preference Optimization" (Rafailov et al., 2023).
/// A micro-batch is a pair, of at most C.context positions each. With l, the sum of an answer's losses, its loss is
///
///     softplus(beta (l(chosen) - l(rejected) - (the same difference in the model without adapters)))
///
/// The parameters are those of `training`, whose interface it has.
template <class D, auto C, class P, template <class, class, class> class Optimizer, gr::index_t Rank,
          gr::nn::base_storage Base = gr::nn::base_storage::stored>
class preference_training : public gr::model_training<model_of<placed<D, P, Rank, Base>, C>, D, P, Optimizer> {
  static_assert(Rank > 0, "preference_training: the reference is the model without its adapters; give a Rank");
  using base = gr::model_training<model_of<placed<D, P, Rank, Base>, C>, D, P, Optimizer>;
  using answer = documents_on_device<D, C.context>;

 public:
  double beta = 0.1;  ///< how strongly the model is held to the reference

  constexpr preference_training(gr::context<D>& persistent, gr::context<D>& transient, const gr::training_options& o,
                                gr::communicator<D>* ranks = nullptr)
      : base(persistent, transient, o, ranks, gr::normal_init{.seed = o.seed, .stddev = 0.02}) {
    for (int i = 0; i < o.batches_here(); ++i) pairs_.push_back({answer(persistent), answer(persistent)});
  }

  /// Submits the copy of pair i, a preference<gradus::packed_batch>, to the device.
  constexpr void load(int i, const auto& pair) { load(pairs_[static_cast<std::size_t>(i)], pair); }
  /// Submits forward and backward of pair i, in the reference first.
  constexpr void backward(int i) {
    const preference<answer>& pair = pairs_[static_cast<std::size_t>(i)];
    this->begin_batch(i);
    const auto reference = reference_difference(pair);
    const auto sum = [&](const answer& of) {
      const auto row = of.row();
      return this->net.loss(this->tape().watch(row.inputs), row.targets, row.rows) * row.predicted;
    };
    this->add_gradients(i, loss_of_pair(difference(pair, sum), reference));
  }
  /// Loss of a pair, without dropout and with nothing recorded, in the memory of a step. Below log 2, the model prefers
  /// the better answer more than the reference does.
  constexpr float evaluate(const auto&... batch) {
    preference<answer> pair{answer(this->transient_), answer(this->transient_)};
    (load(pair, batch), ...);
    const auto reference = reference_difference(pair);
    const auto loss = static_cast<float>(gr::item(loss_of_pair(unrecorded_difference(pair), reference)));
    this->release_values();
    return loss;
  }
  /// A whole step on the pairs that were loaded.
  constexpr void step() { gr::take_step(*this); }

 private:
  static constexpr void load(preference<answer>& to, const auto& from) {
    to.chosen.load(from.chosen);
    to.rejected.load(from.rejected);
  }
  // The loss of the better answer minus that of the worse one, which are sums over their targets.
  template <class Sum>
  static constexpr auto difference(const preference<answer>& pair, const Sum& sum) {
    auto chosen = sum(pair.chosen);
    return std::move(chosen) - sum(pair.rejected);
  }
  constexpr auto unrecorded_difference(const preference<answer>& pair) const {
    return difference(pair, [this](const answer& of) {
      const auto row = of.row_in(this->transient_);
      return this->net.loss(row.inputs, row.targets, row.rows) * row.predicted;
    });
  }
  // The same in the model whose adapters add nothing.
  constexpr auto reference_difference(const preference<answer>& pair) {
    set_alpha(0);
    auto reference = gr::detach(unrecorded_difference(pair));
    set_alpha(this->options().adapter.alpha);
    return reference;
  }
  constexpr auto loss_of_pair(auto difference, const auto& reference) const {
    return gr::softplus((std::move(difference) - reference) * beta);
  }
  constexpr void set_alpha(double alpha) {
    gr::nn::for_each_adapter_slot(this->net, [&](std::string_view, auto& slot) {
      if (slot) slot->settings.alpha = alpha;
    });
  }

  std::vector<preference<answer>> pairs_;
};

}  // namespace gpt
