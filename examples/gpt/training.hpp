#pragma once
// The training step, for any device: on the CPU and on a GPU it trains; on gradus::meta the same code computes nothing
// and tells, to the byte, what memory a step takes.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <gradus/gradus.hpp>
#include <gradus/train/model_training.hpp>

#include "micro_batch.hpp"
#include "model.hpp"

namespace gpt {

/// A GPT, its batches and what trains it.
/// @tparam D     device
/// @tparam C     sizes of the model, of a type that names its architecture
/// @tparam Batch sequences of a micro-batch
/// @tparam Token integer type of token ids
/// @tparam P     precision policy
/// @tparam Rank  of adapters, which are trained in place of the parameters; 0: there are none
/// @tparam Packed whether batches are packed documents, of Batch times the context positions together
/// @tparam Base  how the matrices are stored that adapters are trained on
template <class D, auto C, gr::index_t Batch, class Token = std::uint8_t, class P = gr::fp32,
          template <class, class, class> class Optimizer = gr::adamw, gr::index_t Rank = 0, bool Packed = false,
          gr::nn::base_storage Base = gr::nn::base_storage::stored>
class training : public gr::model_training<model_of<placed<D, P, Rank, Base>, C>, D, P, Optimizer> {
  using base = gr::model_training<model_of<placed<D, P, Rank, Base>, C>, D, P, Optimizer>;
  using micro_batch = std::conditional_t<Packed, documents_on_device<D, Batch * C.context>,
                                         windows_on_device<D, Token, Batch, C.context>>;

 public:
  using ids = gr::shape<Batch, C.context>;

  constexpr training(gr::context<D>& persistent, gr::context<D>& transient, const gr::training_options& o,
                     gr::communicator<D>* ranks = nullptr)
      : base(persistent, transient, o, ranks, gr::normal_init{.seed = o.seed, .stddev = 0.02}) {
    for (int i = 0; i < o.batches_here(); ++i) batches_.emplace_back(persistent);
  }

  /// Submits the copy of micro-batch i, of windows or of packed documents, to the device, where backward(i) reads it.
  constexpr void load(int i, const auto&... batch) { batches_[static_cast<std::size_t>(i)].load(batch...); }
  /// Submits forward and backward of micro-batch i, which adds to the gradients of the others.
  constexpr void backward(int i) {
    const micro_batch& b = batches_[static_cast<std::size_t>(i)];
    this->begin_batch(i);
    const auto inputs = this->tape().watch(b.inputs());
    if constexpr (requires { this->net.losses(inputs, b.targets(), b.rows()); }) {
      const auto [loss, auxiliary] = this->net.losses(inputs, b.targets(), b.rows());
      this->add_gradients(i, loss, loss + auxiliary);
    } else {
      this->add_gradients(i, this->net.loss(inputs, b.targets(), b.rows()));
    }
  }
  /// load() and backward() of a step's only micro-batch. Waits for its loss.
  constexpr float add_batch(const auto&... batch) {
    load(0, batch...);
    backward(0);
    return this->loss_of(0);
  }
  /// Loss of a batch, without dropout and with nothing recorded, in the memory of a step.
  constexpr float evaluate(const auto&... batch) {
    micro_batch b(this->transient_);
    if constexpr (sizeof...(batch) > 0) b.load(batch...);
    const auto loss = static_cast<float>(gr::item(this->net.loss(b.inputs(), b.targets(), b.rows())));
    this->release_values();
    return loss;
  }

  /// A whole step on the micro-batches that were loaded.
  constexpr void step() { gr::take_step(*this); }

 private:
  std::vector<micro_batch> batches_;
};

}  // namespace gpt
