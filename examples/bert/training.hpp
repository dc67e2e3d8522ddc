#pragma once
// The training step, for any device: on the CPU and on a GPU it trains; on gradus::meta the same code computes nothing
// and tells, to the byte, what memory a step takes.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <gradus/train/model_training.hpp>

#include "model.hpp"

namespace bert {

/// A batch on the host: of each sequence `Time` tokens and segments, and its length; of each sample its label, as a
/// class or as a score. The sequences of second texts are behind those of all first ones.
struct host_batch {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> segments;
  std::vector<std::int32_t> lengths, labels;
  std::vector<float> scores = {};
};

/// A BERT, its batches and what trains it: gr::model_training.
/// @tparam D     device
/// @tparam C     sizes of the model
/// @tparam Batch samples of a micro-batch
/// @tparam Time  tokens of a sequence, with its padding
/// @tparam P     precision policy
template <class D, config C, gr::index_t Batch, gr::index_t Time, class P = gr::fp32,
          template <class, class, class> class Optimizer = gr::adamw>
class training : public gr::model_training<model<gr::on<D, P>, C>, D, P, Optimizer> {
  using base = gr::model_training<model<gr::on<D, P>, C>, D, P, Optimizer>;

 public:
  constexpr training(gr::context<D>& persistent, gr::context<D>& transient, const gr::training_options& o)
      : base(persistent, transient, o, nullptr, gr::normal_init{.seed = o.seed, .stddev = 0.02}) {
    for (int i = 0; i < o.accumulate; ++i) slots_.push_back(slot(persistent));
  }

  /// Submits the copy of micro-batch i to the device, where backward(i) reads it.
  constexpr void load(int i, const host_batch& b) {
    slots_[static_cast<std::size_t>(i)].load(b);
    if constexpr (C.scores()) return;  // all of them count
    const auto counted = std::count_if(b.labels.begin(), b.labels.end(), [](std::int32_t label) { return label >= 0; });
    this->set_share(i, static_cast<double>(counted) / static_cast<double>(Batch));
  }
  /// Submits forward and backward of micro-batch i, which adds to the gradients of the others.
  constexpr void backward(int i) {
    const slot& s = slots_[static_cast<std::size_t>(i)];
    this->begin_batch(i);
    this->add_gradients(i, this->net.loss(this->tape().watch(s.batch.tokens), s.batch, s.labels));
  }
  /// The logits of a batch, [Batch, labels], or its sentence embeddings, [2 Batch, width], without dropout and with
  /// nothing recorded. It takes the place of micro-batch 0.
  constexpr auto evaluate(const host_batch& b) {
    slots_.front().load(b);
    return this->net(slots_.front().batch);
  }

  /// A whole step on the micro-batches that were loaded, for plans. A graph of it would keep their shares of labels.
  constexpr void step() { gr::take_step(*this); }

 private:
  static constexpr gr::index_t rows = C.texts() * Batch;
  using label_type = std::conditional_t<C.scores(), float, std::int32_t>;
  // A micro-batch.
  struct slot {
    sequences<D, rows, Time> batch;
    gr::tensor<label_type, gr::shape<Batch>, D> labels;
    gr::staging_buffer<std::int32_t, D> numbers;  // tokens, lengths
    gr::staging_buffer<label_type, D> host_labels;
    gr::staging_buffer<std::uint8_t, D> segments;
    constexpr explicit slot(gr::context<D>& ctx)
        : batch(ctx),
          labels(ctx, gr::category::input),
          numbers(ctx, rows * Time + rows),
          host_labels(ctx, Batch),
          segments(ctx, rows * Time) {}
    constexpr void load(const host_batch& b) {
      std::copy(b.lengths.begin(), b.lengths.end(),
                std::copy(b.tokens.begin(), b.tokens.end(), numbers.values().begin()));
      std::copy(b.segments.begin(), b.segments.end(), segments.values().begin());
      if constexpr (C.scores()) std::copy(b.scores.begin(), b.scores.end(), host_labels.values().begin());
      else std::copy(b.labels.begin(), b.labels.end(), host_labels.values().begin());
      numbers.upload(batch.tokens);
      numbers.upload(batch.lengths, rows * Time);
      host_labels.upload(labels);
      segments.upload(batch.segments);
    }
  };

  std::vector<slot> slots_;
};

}  // namespace bert
