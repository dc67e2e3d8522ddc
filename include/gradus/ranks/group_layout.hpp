#pragma once
// How ranks share a model's parameters: in groups, each of which lies in one piece of memory and is cut into one share
// for each rank.

#include <cstddef>
#include <string>
#include <vector>

#include "../core/config.hpp"
#include "../core/extent.hpp"

namespace gradus {

/// A parameter, as a layout sees it.
struct sized_parameter {
  std::string group;  ///< its name; parameters of a group follow each other
  index_t size;
};

/// The groups of a model's parameters.
///
/// In a group's memory its parameters follow each other, each from a multiple of `alignment` elements on, in an order
/// in which rank 0's share comes first, then rank 1's, and so on. Shares are cut where parameters begin, or at a
/// multiple of `unit` elements within one.
struct group_layout {
  static constexpr index_t alignment = 128;  ///< elements: 256 bytes of 16-bit elements
  static constexpr index_t unit = 4096;      ///< elements

  /// Where a parameter lies in its group.
  struct place {
    index_t number;  ///< of the parameter in the model's order
    index_t size;
    index_t offset;  ///< elements from the group's beginning
  };
  /// Elements of one parameter that one rank owns.
  struct piece {
    index_t number, begin, size;
    index_t owner;   ///< rank
    index_t group;   ///< its number
    index_t offset;  ///< in the group
  };
  struct group {
    std::string name;
    std::vector<place> places;    ///< in the order of the memory
    index_t elements = 0;         ///< with the padding between parameters
    std::vector<index_t> counts;  ///< of each rank's share

    /// Where the share of a rank begins.
    index_t begin_of(index_t rank) const;
  };
  std::vector<group> groups;
  std::vector<piece> pieces;  ///< group by group, in the order of the memory

  /// Elements of a rank's shares, with padding.
  index_t elements_of(index_t rank) const { return shares_before(groups.size(), rank); }
  /// Elements of a rank's shares of the first `count` groups.
  index_t shares_before(index_t count, index_t rank) const;
  /// Where a piece is if its owner has its shares in one array, group by group.
  index_t place_in_shares(const piece& p) const {
    return shares_before(p.group, p.owner) + p.offset - groups[p.group].begin_of(p.owner);
  }
};

/// Lays out parameters for `ranks` ranks, as evenly as cuts permit; if `whole` is set, each parameter has one owner.
group_layout make_group_layout(const std::vector<sized_parameter>& parameters, index_t ranks, bool whole);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "group_layout.ipp"
#endif
