#pragma once
// The training step, for any device: on the CPU and on a GPU it trains; on gradus::meta the same code computes nothing
// and tells, to the byte, what memory a step takes.

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gradus/train/model_training.hpp>

#include "model.hpp"

namespace bert {

/// A batch on the host: the tokens of all sequences, one behind the other, their segments, and the length of each
/// sequence; of each sample its label, as a class or as a score. The sequences of second texts are behind those of all
/// first ones.
struct host_batch {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> segments;
  std::vector<std::int32_t> lengths, labels;
  std::vector<float> scores = {};
};

/// Sequences on a device, and the host memory that they are copied from.
/// @tparam C sizes of the model
template <class D, config C, gr::index_t B, gr::index_t T>
class loaded_sequences : public sequences<D, B, T> {
  using base = sequences<D, B, T>;

 public:
  constexpr explicit loaded_sequences(gr::context<D>& ctx)
      : base(ctx), integers_(ctx, 5 * base::most + B), host_segments_(ctx, base::most) {}

  /// Submits the copy of a batch's sequences to the device. Throws gr::error unless there are B of 1 to T tokens.
  constexpr void load(const host_batch& b) {
    check(b);
    const gr::index_t n = b.tokens.size();
    this->resize(n);
    auto* const from = integers_.values().data();
    std::copy(b.tokens.begin(), b.tokens.end(), from);
    std::copy(b.segments.begin(), b.segments.end(), host_segments_.values().begin());
    std::int32_t first = 0, number = 0;
    for (const std::int32_t length : b.lengths) {
      for (std::int32_t t = first; t < first + length; ++t) {
        from[n + 2 * t] = first;
        from[n + 2 * t + 1] = first + length;
        from[3 * n + t] = static_cast<std::int32_t>(C.first_position) + t - first;
        from[4 * n + t] = number;
      }
      from[5 * n + number++] = first;
      first += length;
    }
    integers_.upload(this->tokens);
    integers_.upload(this->rows.documents, n);
    integers_.upload(this->rows.positions, 3 * n);
    integers_.upload(this->numbers, 4 * n);
    integers_.upload(this->firsts, 5 * n);
    host_segments_.upload(this->segments);
  }

 private:
  static constexpr void check(const host_batch& b) {
    gr::index_t n = 0;
    for (const std::int32_t length : b.lengths) {
      if (length < 1 || length > static_cast<std::int32_t>(T))
        throw gr::error("bert: a sequence of " + std::to_string(length) + " tokens; 1 to " + std::to_string(T) +
                        " are possible");
      n += static_cast<gr::index_t>(length);
    }
    if (b.lengths.size() != B || b.tokens.size() != n || b.segments.size() != n)
      throw gr::error("bert: a batch of " + std::to_string(b.lengths.size()) + " sequences and " +
                      std::to_string(b.tokens.size()) + " tokens; " + std::to_string(B) + " of " + std::to_string(n) +
                      " tokens and segments are needed");
  }

  gr::staging_buffer<std::int32_t, D> integers_;
  gr::staging_buffer<std::uint8_t, D> host_segments_;
};

/// A BERT, its batches and what trains it: gr::model_training.
/// @tparam D     device
/// @tparam C     sizes of the model
/// @tparam Batch samples of a micro-batch
/// @tparam Time  tokens of the longest sequence
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
    const auto ids = this->tape().watch(s.batch.tokens);
    this->add_gradients(i, this->net.loss(this->net.outputs(ids, s.batch), s.labels));
  }
  /// The logits of a batch, [Batch, labels], or its sentence embeddings, [2 Batch, width], without dropout and with
  /// nothing recorded, in the memory of a step.
  constexpr auto evaluate(const host_batch& b) {
    row batch(this->transient_);
    if constexpr (D::computes) batch.load(b);
    return this->net(batch);
  }

  /// A whole step on the micro-batches that were loaded, for plans. A graph of it would keep their shares of labels.
  constexpr void step() { gr::take_step(*this); }

 private:
  using label_type = std::conditional_t<C.scores(), float, std::int32_t>;
  using row = loaded_sequences<D, C, C.texts() * Batch, Time>;
  // A micro-batch.
  struct slot {
    row batch;
    gr::tensor<label_type, gr::shape<Batch>, D> labels;
    gr::staging_buffer<label_type, D> host_labels;
    constexpr explicit slot(gr::context<D>& ctx)
        : batch(ctx), labels(ctx, gr::category::input), host_labels(ctx, Batch) {}
    constexpr void load(const host_batch& b) {
      batch.load(b);
      if constexpr (C.scores()) std::copy(b.scores.begin(), b.scores.end(), host_labels.values().begin());
      else std::copy(b.labels.begin(), b.labels.end(), host_labels.values().begin());
      host_labels.upload(labels);
    }
  };

  std::vector<slot> slots_;
};

}  // namespace bert
