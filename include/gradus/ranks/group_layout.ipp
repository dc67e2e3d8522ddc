#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "group_layout.hpp"

namespace gradus {

namespace detail {

// The owners of whole parameters: the largest parameter first, each to the rank that has least. Sorts places by owner.
GRADUS_IMPL std::vector<index_t> choose_owners(std::vector<group_layout::place>& places, std::vector<index_t>& loads) {
  std::vector<index_t> by_size(places.size()), owners(places.size());
  std::iota(by_size.begin(), by_size.end(), index_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](index_t a, index_t b) { return places[a].size > places[b].size; });
  for (const index_t i : by_size) {
    owners[i] = static_cast<index_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
    loads[owners[i]] += places[i].size;
  }
  std::vector<index_t> order(places.size());
  std::iota(order.begin(), order.end(), index_t{0});
  std::stable_sort(order.begin(), order.end(), [&](index_t a, index_t b) { return owners[a] < owners[b]; });
  std::vector<group_layout::place> sorted;
  std::vector<index_t> owners_sorted;
  for (const index_t i : order) sorted.push_back(places[i]), owners_sorted.push_back(owners[i]);
  places = std::move(sorted);
  return owners_sorted;
}

// Where the share of each rank but the first begins: the cuts nearest to those that give all ranks the same load.
GRADUS_IMPL std::vector<index_t> choose_cuts(const group_layout::group& g, const std::vector<index_t>& loads) {
  const auto ranks = static_cast<double>(loads.size());
  double all = static_cast<double>(g.elements);
  for (const index_t load : loads) all += static_cast<double>(load);
  std::vector<double> wanted;
  double sum = 0;
  for (const index_t load : loads) sum += wanted.emplace_back(std::max(0.0, all / ranks - static_cast<double>(load)));
  std::vector<index_t> cuts;
  double before = 0;
  for (std::size_t r = 0; r + 1 < loads.size(); ++r) {
    before += wanted[r] / sum * static_cast<double>(g.elements);
    index_t best = g.elements;
    const auto consider = [&](index_t cut) {
      if (std::abs(static_cast<double>(cut) - before) < std::abs(static_cast<double>(best) - before)) best = cut;
    };
    for (const group_layout::place& p : g.places) {
      const double inside = before - static_cast<double>(p.offset);
      const index_t below = inside <= 0 ? 0 : static_cast<index_t>(inside) / group_layout::unit * group_layout::unit;
      for (const index_t at : {index_t{0}, below, below + group_layout::unit})
        if (at < p.size) consider(p.offset + at);
    }
    cuts.push_back(cuts.empty() ? best : std::max(best, cuts.back()));
  }
  return cuts;
}

}  // namespace detail

GRADUS_IMPL index_t group_layout::group::begin_of(index_t rank) const {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank), index_t{0});
}

GRADUS_IMPL index_t group_layout::shares_before(index_t count, index_t rank) const {
  index_t all = 0;
  for (index_t g = 0; g < count; ++g) all += groups[g].counts[rank];
  return all;
}

GRADUS_IMPL group_layout make_group_layout(const std::vector<sized_parameter>& parameters, index_t ranks, bool whole) {
  group_layout all;
  for (index_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].group;
    if (all.groups.empty() || all.groups.back().name != name) all.groups.emplace_back().name = name;
    all.groups.back().places.push_back({i, parameters[i].size, 0});
  }
  std::vector<index_t> loads(ranks);
  for (index_t number = 0; number < all.groups.size(); ++number) {
    group_layout::group& g = all.groups[number];
    std::vector<index_t> owners;
    if (whole) owners = detail::choose_owners(g.places, loads);
    for (group_layout::place& p : g.places) {
      p.offset = g.elements;
      g.elements += (p.size + group_layout::alignment - 1) / group_layout::alignment * group_layout::alignment;
    }
    std::vector<index_t> cuts;  // where the shares of ranks 1, 2, ... begin
    if (whole) {
      for (index_t r = 1; r < ranks; ++r) {
        const auto first = std::find_if(owners.begin(), owners.end(), [&](index_t o) { return o >= r; });
        cuts.push_back(first == owners.end() ? g.elements
                                             : g.places[static_cast<index_t>(first - owners.begin())].offset);
      }
    } else {
      cuts = detail::choose_cuts(g, loads);
    }
    cuts.push_back(g.elements);
    index_t begin = 0;
    for (index_t r = 0; r < ranks; ++r) {
      g.counts.push_back(cuts[r] - begin);
      if (!whole) loads[r] += cuts[r] - begin;
      begin = cuts[r];
    }
    for (const group_layout::place& p : g.places)
      for (index_t r = 0; r < ranks; ++r) {
        const index_t from = std::max(p.offset, g.begin_of(r)), to = std::min(p.offset + p.size, cuts[r]);
        if (from < to) all.pieces.push_back({p.number, from - p.offset, to - from, r, number, from});
      }
  }
  return all;
}

}  // namespace gradus
