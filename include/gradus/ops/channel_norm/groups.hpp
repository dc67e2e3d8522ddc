#pragma once
// Which elements of x [B, C, ...] a norm over channels normalises together.

#include "../../core/config.hpp"
#include "../../core/extent.hpp"

namespace gradus {

/// x [B, C, ...] as B * C runs of `length` adjacent elements, one for each sample and channel. A group has the runs of
/// one channel in all samples (batch norm), or of `together` adjacent channels of a sample.
struct channel_groups {
  index_t batch, channels, length;
  index_t together;  ///< 0: batch norm

  GRADUS_HD constexpr bool over_batch() const { return together == 0; }
  GRADUS_HD constexpr index_t runs() const { return batch * channels; }
  GRADUS_HD constexpr index_t groups() const { return over_batch() ? channels : runs() / together; }
  GRADUS_HD constexpr index_t runs_in_group() const { return over_batch() ? batch : together; }
  GRADUS_HD constexpr index_t elements_in_group() const { return runs_in_group() * length; }
  GRADUS_HD constexpr index_t channel_of(index_t run) const { return run % channels; }
  GRADUS_HD constexpr index_t group_of(index_t run) const { return over_batch() ? run % channels : run / together; }
  /// Run number i of a group.
  GRADUS_HD constexpr index_t run_of(index_t group, index_t i) const {
    return over_batch() ? i * channels + group : group * together + i;
  }
  /// True if x is a matrix [B, C] whose columns are the groups.
  GRADUS_HD constexpr bool are_columns() const { return over_batch() && length == 1; }

  /// The groups of a tensor with extents x. Groups: the groups of a sample; 0: batch norm.
  template <index_t Groups, class Extents>
  static constexpr channel_groups of(const Extents& x) {
    const index_t batch = x.extents[0], channels = x.extents[1];
    return {batch, channels, x.size / (batch * channels), Groups == 0 ? 0 : channels / Groups};
  }
};

/// The mean and the variance of each group: side by side in one tensor, as channel_moments computes them, or in two, as
/// running ones.
template <class M>
struct group_moments {
  const M* means;
  const M* variances;
  bool together;

  GRADUS_HD M mean(index_t group) const { return means[together ? 2 * group : group]; }
  GRADUS_HD M variance(index_t group) const { return variances[together ? 2 * group + 1 : group]; }
};

}  // namespace gradus
