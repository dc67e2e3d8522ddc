#pragma once
// Batches of samples in memory, shuffled by key.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../core/philox.hpp"
#include "batches.hpp"
#include "host_array.hpp"

namespace gradus {

/// Options of sample_batches.
struct sample_batch_options {
  index_t batch = 1;       ///< samples of a batch
  bool drop_last = false;  ///< omits an epoch's last batch if it has fewer samples; which ones changes with the epoch
};

/// Some samples: rows of inputs, and the same rows of targets.
template <class Input, class Target>
struct sample_batch {
  host_array<Input> inputs;
  host_array<Target> targets;
  /// The number of samples: the options' batch, or fewer in the last batch of an epoch.
  index_t rows() const { return inputs.extents.front(); }
};

/// Batches of samples in memory: row i of the inputs and row i of the targets are sample i. Batches are pure functions
/// of their arguments: several threads may compute them (see prefetcher), and a run resumes with its seed and a number.
template <class Input, class Target>
class sample_batches {
 public:
  /// Throws gradus::error unless both arrays have the same first extent, at least 1, and values for their extents; for
  /// a batch of 0; and if `drop_last` leaves no batch.
  sample_batches(host_array<Input> inputs, host_array<Target> targets, const sample_batch_options& options)
      : inputs_(std::move(inputs)), targets_(std::move(targets)), batch_(options.batch) {
    const auto fail = [](const std::string& what) { throw error("sample_batches: " + what); };
    detail::check_array_values("sample_batches: the inputs", inputs_.extents, inputs_.values.size());
    detail::check_array_values("sample_batches: the targets", targets_.extents, targets_.values.size());
    if (inputs_.extents.empty() || targets_.extents.empty()) fail("the inputs or targets have no axis of samples");
    samples_ = inputs_.extents[0];
    if (targets_.extents[0] != samples_)
      fail(std::to_string(samples_) + " inputs and " + std::to_string(targets_.extents[0]) +
           " targets; their numbers must be equal");
    if (samples_ == 0) fail("there are no samples");
    if (batch_ == 0) fail("a batch of 0 samples; it must be 1 or more");
    batches_ = samples_ / batch_ + (options.drop_last || samples_ % batch_ == 0 ? 0 : 1);
    if (batches_ == 0)
      fail(std::to_string(samples_) + " samples are fewer than a batch of " + std::to_string(batch_) +
           ", and the last batch is dropped");
  }

  index_t samples() const { return samples_; }
  /// Batches of an epoch.
  index_t batches() const { return batches_; }

  /// Batch `number`, counted from 0 through all epochs: number / batches() is its epoch. Each epoch has every sample
  /// once (without the samples of a dropped batch), in another order.
  sample_batch<Input, Target> shuffled_batch(std::uint64_t seed, std::uint64_t number) const {
    const std::uint64_t epoch = number / batches_;
    const random_key key{seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32),
                         random_domain::data};
    return gather(number, [&](index_t i) { return static_cast<index_t>(detail::shuffled(i, samples_, key)); });
  }
  /// Batch `number` of the samples in their order, which begins again after batches(): for validation.
  sample_batch<Input, Target> batch(std::uint64_t number) const {
    return gather(number, [](index_t i) { return i; });
  }

 private:
  template <class Place>
  sample_batch<Input, Target> gather(std::uint64_t number, const Place& place) const {
    const index_t first = static_cast<index_t>(number % batches_) * batch_;
    const index_t rows = std::min(batch_, samples_ - first);
    sample_batch<Input, Target> gathered{empty_rows(inputs_, rows), empty_rows(targets_, rows)};
    for (index_t row = 0; row < rows; ++row) {
      const index_t sample = place(first + row);
      copy_row(inputs_, sample, gathered.inputs, row);
      copy_row(targets_, sample, gathered.targets, row);
    }
    return gathered;
  }
  template <class T>
  static host_array<T> empty_rows(const host_array<T>& like, index_t rows) {
    host_array<T> empty{like.extents, {}};
    empty.values.resize(like.values.size() / empty.extents[0] * rows);
    empty.extents[0] = rows;
    return empty;
  }
  template <class T>
  static void copy_row(const host_array<T>& from, index_t sample, host_array<T>& to, index_t row) {
    const std::size_t width = to.values.size() / to.extents[0];
    std::copy_n(from.values.data() + sample * width, width, to.values.data() + row * width);
  }

  host_array<Input> inputs_;
  host_array<Target> targets_;
  index_t batch_, samples_ = 0, batches_ = 0;
};

}  // namespace gradus
