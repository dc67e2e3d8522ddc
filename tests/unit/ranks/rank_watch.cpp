// Ranks of one machine notice when one of them ends.
#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif
#include <gradus/ranks/rank_watch.hpp>

#include "../../support/message_of.hpp"
#include "../../support/scratch_folder.hpp"
#include "../../support/system.hpp"

namespace gr = gradus;

TEST_CASE("a rank that ends tells the others why, and one that has done its work is no failure") {
  const gradus_test::scratch_folder folder;
  const auto ranks = folder.path / "ranks";
  {
    auto done = std::make_unique<gr::rank_watch>(ranks, 0, 3);
    gr::rank_watch ended(ranks, 1, 3);
    const gr::rank_watch other(ranks, 2, 3);
    if (!gradus_test::on_windows)
      CHECK((std::filesystem::status(ranks / "rank-2").permissions() & ~std::filesystem::perms::owner_all) ==
            std::filesystem::perms::none);
    CHECK(other.failure().empty());
    done.reset();
    CHECK(other.failure().empty());
    ended.end("its disk is full");
    ended.end("a second reason");
    CHECK(other.failure() == "rank 1 has ended: its disk is full");
    CHECK(ended.failure().empty());
  }
  CHECK(!std::filesystem::exists(ranks));
}

TEST_CASE("the folder stays for the ranks that work, until the last one is done") {
  const gradus_test::scratch_folder folder;
  const auto ranks = folder.path / "ranks";
  auto other = std::make_unique<gr::rank_watch>(ranks, 0, 2);
  auto ended = std::make_unique<gr::rank_watch>(ranks, 1, 2);
  ended->end("of an exception");
  ended.reset();
  CHECK(other->failure() == "rank 1 has ended: of an exception");
  other.reset();
  CHECK(!std::filesystem::exists(ranks));
}

TEST_CASE("a rank comes while others look for it" * doctest::skip(gradus_test::on_windows)) {
  const gradus_test::scratch_folder folder;
  const gr::rank_watch other(folder.path, 0, 2);
  std::atomic<bool> over = false;
  std::vector<std::thread> looking(4);
  for (std::thread& t : looking)
    t = std::thread([&] {
      while (!over) static_cast<void>(other.failure());
    });
  int came = 0;
  const std::string failed = gradus_test::message_of([&] {
    for (; came < 2000; ++came) const gr::rank_watch comes(folder.path, 1, 2);
  });
  over = true;
  for (std::thread& t : looking) t.join();
  CHECK(failed == "nothing was thrown");
  CHECK(came == 2000);
}

#if !defined(_WIN32)
TEST_CASE("a process that is killed is noticed") {
  const gradus_test::scratch_folder folder;
  const pid_t process = fork();
  if (process == 0) {
    const gr::rank_watch killed(folder.path, 0, 2);
    static_cast<void>(std::raise(SIGKILL));
  }
  const gr::rank_watch other(folder.path, 1, 2);
  int status = 0;
  CHECK(waitpid(process, &status, 0) == process);
  CHECK(WIFSIGNALED(status));
  CHECK(other.failure() == "rank 0 has ended: without a word: it was killed, or crashed");
}
#endif

TEST_CASE("two ranks cannot have one number") {
  const gradus_test::scratch_folder folder;
  const gr::rank_watch first(folder.path, 0, 2);
  CHECK(gradus_test::message_of([&] { gr::rank_watch(folder.path, 0, 2); }) ==
        "rank_watch: cannot create and lock " + (folder.path / "rank-0").string() + ": File exists");
}
