#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <gradus/ranks/group_layout.hpp>

namespace gr = gradus;

TEST_CASE("a layout cuts groups evenly, at units or between parameters") {
  const std::vector<gr::sized_parameter> all{{"tokens", 100000},  {"blocks.0", 30000}, {"blocks.0", 130},
                                             {"blocks.1", 30000}, {"blocks.1", 130},   {"norm", 100}};
  for (const gr::index_t ranks : {1, 2, 4, 8})
    for (const bool whole : {false, true}) {
      CAPTURE(ranks);
      CAPTURE(whole);
      const gr::group_layout l = gr::make_group_layout(all, ranks, whole);
      REQUIRE(l.groups.size() == 4);
      CHECK(l.groups[1].name == "blocks.0");
      std::vector<gr::index_t> covered(all.size());
      for (const auto& p : l.pieces) {
        CHECK(p.size > 0);
        CHECK(p.begin % gr::group_layout::unit == 0);
        if (whole) CHECK(p.size == all[p.number].size);
        covered[p.number] += p.size;
        const auto& g = l.groups[p.group];
        CHECK(p.offset >= g.begin_of(p.owner));
        CHECK(p.offset + p.size <= g.begin_of(p.owner) + g.counts[p.owner]);
      }
      for (std::size_t i = 0; i < all.size(); ++i) CHECK(covered[i] == all[i].size);
      gr::index_t most = 0, sum = 0;
      for (gr::index_t r = 0; r < ranks; ++r) {
        most = std::max(most, l.elements_of(r));
        sum += l.elements_of(r);
      }
      if (!whole) CHECK(most <= sum / ranks + 2 * gr::group_layout::unit);
      for (const auto& g : l.groups)
        for (const auto& p : g.places) CHECK(p.offset % gr::group_layout::alignment == 0);
    }
}

TEST_CASE("shares of many small groups add up evenly: no rank has a unit more than another") {
  const std::vector<gr::sized_parameter> all = [] {
    std::vector<gr::sized_parameter> some;
    for (int i = 0; i < 41; ++i) some.push_back({"blocks." + std::to_string(i), 3 * gr::group_layout::unit});
    return some;
  }();
  for (const gr::index_t ranks : {2, 4, 8}) {
    CAPTURE(ranks);
    const gr::group_layout l = gr::make_group_layout(all, ranks, false);
    gr::index_t most = 0, least = l.elements_of(0);
    for (gr::index_t r = 0; r < ranks; ++r) {
      most = std::max(most, l.elements_of(r));
      least = std::min(least, l.elements_of(r));
    }
    CHECK(most - least <= gr::group_layout::unit);
  }
}
