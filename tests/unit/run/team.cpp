#include <gradus/run/team.hpp>

#include <doctest/doctest.h>

#include <string>

namespace gr = gradus;

TEST_CASE("ranks that were started differently end before they train, and rank 0 names one and what differs") {
  const auto said = [](int odd, const gr::config_entries& theirs) {
    std::string text;
    gr::run_ranks(4, [&](gr::communicator<gr::cpu>& host) {
      gr::team team(host, host.rank(), host.size());
      const gr::config_entries usual{{"seed", "5"}, {"lr", "0.1"}};
      try {
        team.check_same(team.rank() == odd ? theirs : usual);
      } catch (const gr::leader_failed&) { CHECK(team.rank() > 0); } catch (const gr::bad_flag& e) {
        CHECK(team.leads());
        text = e.what();
      }
    });
    return text;
  };
  CHECK(said(9, {}).empty());
  CHECK(said(2, {{"seed", "5"}, {"lr", "0.15"}}) ==
        "the ranks were started differently: rank 2 has 'lr = 0.15', and rank 0 has 'lr = 0.1'");
  CHECK(said(3, {{"seed", "15"}, {"lr", "0.1"}}) ==
        "the ranks were started differently: rank 3 has 'seed = 15', and rank 0 has 'seed = 5'");
  CHECK(said(1, {{"seed", "5"}}) == "the ranks were started differently: rank 1 has '', and rank 0 has 'lr = 0.1'");
}
