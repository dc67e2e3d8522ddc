#pragma once
// The training step, for any device: on the CPU and on a GPU it trains; on gradus::meta the same code computes nothing
// and tells, to the byte, what memory a step takes.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gradus/gradus.hpp>
#include <gradus/train/model_training.hpp>

#include "model.hpp"

namespace gpt {

/// A GPT, its batches and what trains it.
/// @tparam D     device
/// @tparam C     sizes of the model, of a type that names its architecture
/// @tparam Batch sequences of a micro-batch
/// @tparam Token integer type of token ids
/// @tparam P     precision policy
/// @tparam Rank  of adapters, which are trained in place of the parameters; 0: there are none
template <class D, auto C, gr::index_t Batch, class Token = std::uint8_t, class P = gr::fp32,
          template <class, class, class> class Optimizer = gr::adamw, gr::index_t Rank = 0>
class training : public gr::model_training<model_of<placed<D, P, Rank>, C>, D, P, Optimizer> {
  using base = gr::model_training<model_of<placed<D, P, Rank>, C>, D, P, Optimizer>;

 public:
  using ids = gr::shape<Batch, C.context>;

  constexpr training(gr::context<D>& persistent, gr::context<D>& transient, const gr::training_options& o,
                     gr::communicator<D>* ranks = nullptr)
      : base(persistent, transient, o, ranks, gr::normal_init{.seed = o.seed, .stddev = 0.02}) {
    for (int i = 0; i < o.batches_here(); ++i) slots_.push_back(slot(persistent));
  }

  /// Submits the copy of micro-batch i to the device, where backward(i) reads it.
  constexpr void load(int i, const Token* inputs, const Token* targets) {
    slot& s = slots_[static_cast<std::size_t>(i)];
    const auto text = s.text.values();
    std::copy_n(inputs, text.size() / 2, text.begin());
    std::copy_n(targets, text.size() / 2, text.begin() + static_cast<std::ptrdiff_t>(text.size() / 2));
    s.text.upload(s.inputs);
    s.text.upload(s.targets, ids::size);
  }
  /// Submits forward and backward of micro-batch i, which adds to the gradients of the others.
  constexpr void backward(int i) {
    const slot& s = slots_[static_cast<std::size_t>(i)];
    this->begin_batch(i);
    const auto inputs = this->tape().watch(s.inputs);
    if constexpr (requires { this->net.losses(inputs, s.targets); }) {
      const auto [loss, auxiliary] = this->net.losses(inputs, s.targets);
      this->add_gradients(i, loss, loss + auxiliary);
    } else {
      this->add_gradients(i, this->net.loss(inputs, s.targets));
    }
  }
  /// Likewise of a token_batch.
  constexpr void load(int i, const auto& batch) { load(i, batch.inputs.data(), batch.targets.data()); }
  /// load() and backward() of a step's only micro-batch. Waits for its loss.
  constexpr float add_batch(const Token* inputs, const Token* targets) {
    load(0, inputs, targets);
    backward(0);
    return this->loss_of(0);
  }
  /// Loss of a batch, without dropout and with nothing recorded.
  constexpr float evaluate(const Token* inputs, const Token* targets) {
    const auto loss = static_cast<float>(gr::item(this->net.loss(upload(inputs), upload(targets))));
    this->release_values();
    return loss;
  }

  /// A whole step on the micro-batches that were loaded.
  constexpr void step() { gr::take_step(*this); }

 private:
  // A micro-batch.
  struct slot {
    gr::tensor<Token, ids, D> inputs, targets;
    gr::staging_buffer<Token, D> text;  // inputs, then targets
    constexpr explicit slot(gr::context<D>& ctx)
        : inputs(ctx, gr::category::input), targets(ctx, gr::category::input), text(ctx, 2 * ids::size) {}
  };

  constexpr auto upload(const Token* tokens) const {
    return gr::from_host<Token, ids>(this->transient_, tokens, gr::category::input);
  }

  std::vector<slot> slots_;
};

}  // namespace gpt
