#pragma once
// The memory of one micro-batch on the device, and its copy from the host: windows of a text, or packed documents.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gradus/gradus.hpp>

namespace gpt {

namespace gr = gradus;

/// Windows of a text: B rows of T tokens, each of which predicts the next one.
template <class D, class Token, gr::index_t B, gr::index_t T>
class windows_on_device {
 public:
  using ids = gr::shape<B, T>;

  constexpr explicit windows_on_device(gr::context<D>& ctx)
      : inputs_(ctx, gr::category::input), targets_(ctx, gr::category::input), text_(ctx, 2 * ids::size) {}

  /// Submits the copy of a batch of tokens.
  constexpr void load(const Token* inputs, const Token* targets) {
    const auto text = text_.values();
    std::copy_n(inputs, ids::size, text.begin());
    std::copy_n(targets, ids::size, text.begin() + static_cast<std::ptrdiff_t>(ids::size));
    text_.upload(inputs_);
    text_.upload(targets_, ids::size);
  }
  constexpr void load(const auto& batch) { load(batch.inputs.data(), batch.targets.data()); }
  constexpr const auto& inputs() const { return inputs_; }
  constexpr const auto& targets() const { return targets_; }
  static constexpr gr::nn::whole_rows rows() { return {}; }

 private:
  gr::tensor<Token, ids, D> inputs_, targets_;
  gr::staging_buffer<Token, D> text_;  // inputs, then targets
};

/// Documents one behind the other: 1 to N positions, for a model's loss().
template <class D, gr::index_t N>
struct document_row {
  gr::tensor<std::int32_t, gr::shape<1, gr::upto<N>>, D> inputs, targets;
  gr::nn::packed_rows<D, 1, gr::upto<N>> rows;
  double predicted;  ///< positions that predict something
};

/// The memory of a row of 1 to N positions.
template <class D, gr::index_t N>
class documents_on_device {
 public:
  using ids = gr::shape<1, gr::upto<N>>;
  using packed_rows = gr::nn::packed_rows<D, 1, gr::upto<N>>;

  constexpr explicit documents_on_device(gr::context<D>& ctx)
      : inputs_(ctx, N, gr::category::input),
        targets_(ctx, N, gr::category::input),
        spans_(ctx, N, gr::category::input),
        positions_(ctx, N, gr::category::input),
        numbers_(ctx, 5 * N) {}

  /// Submits the copy of a gradus::packed_batch.
  constexpr void load(const auto& batch) {
    n_ = batch.tokens.size();
    predicted_ = static_cast<double>(batch.predicted);
    const auto numbers = numbers_.values();
    gr::index_t at = 0;
    const auto copy = [&](const auto& values, auto& to) {
      std::ranges::copy(values, numbers.begin() + static_cast<std::ptrdiff_t>(at));
      auto there = part(to);
      numbers_.upload(there, at);
      at += values.size();
    };
    copy(batch.tokens, inputs_);
    copy(batch.targets, targets_);
    copy(batch.spans, spans_);
    copy(batch.positions, positions_);
  }
  constexpr auto inputs() const { return part(inputs_); }
  constexpr auto targets() const { return part(targets_); }
  /// The row. With a context, what an operation takes first is a copy there, so that its results are there, too.
  constexpr document_row<D, N> row() const { return {inputs(), targets(), rows(), predicted_}; }
  constexpr document_row<D, N> row_in(gr::context<D>& ctx) const {
    return {copied(ctx, inputs_), targets(), {part(spans_), copied(ctx, positions_)}, predicted_};
  }
  constexpr packed_rows rows() const { return {part(spans_), part(positions_)}; }

 private:
  // The first n_ positions.
  template <class Shape>
  constexpr gr::tensor<std::int32_t, Shape, D> part(const gr::tensor<std::int32_t, Shape, D>& of) const {
    return gr::tensor<std::int32_t, Shape, D>(of.storage(), n_);
  }

  constexpr auto copied(gr::context<D>& ctx, const gr::tensor<std::int32_t, ids, D>& of) const {
    gr::tensor<std::int32_t, ids, D> copy(ctx, n_, gr::category::temporary);
    if constexpr (D::computes) gr::device_access<D>::copy(ctx, copy.data(), of.data(), n_ * sizeof(std::int32_t));
    return copy;
  }

  gr::tensor<std::int32_t, ids, D> inputs_, targets_;
  gr::tensor<std::int32_t, gr::shape<1, gr::upto<N>, 2>, D> spans_;
  gr::tensor<std::int32_t, ids, D> positions_;
  gr::staging_buffer<std::int32_t, D> numbers_;
  gr::index_t n_ = N;
  double predicted_ = N;
};

}  // namespace gpt
