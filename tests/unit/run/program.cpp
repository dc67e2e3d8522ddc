// The frame of a program: exit statuses, and requests to end it.
#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <gradus/run/interrupts.hpp>
#include <gradus/run/program.hpp>
#include <new>
#include <stdexcept>
#include <string>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/resource.h>
#endif

#include "../../support/message_of.hpp"

namespace gr = gradus;

namespace {
std::atomic<long long> interrupted_at = 0;
}  // namespace

TEST_CASE("a program ends with its own status, 2 for a flag and 1 for any other exception") {
  CHECK(gr::run_program("test", [] { return 0; }) == 0);
  CHECK(gr::run_program("test", [] { return 5; }) == 5);
  CHECK(gr::run_program("test", []() -> int { throw gr::bad_flag("--x must be y, not z"); }) == 2);
  CHECK(gr::run_program("test", []() -> int { throw gr::error("a file is damaged"); }) == 1);
  CHECK(gr::run_program("test", []() -> int { throw std::runtime_error("other"); }) == 1);
  CHECK(gr::run_program(
            "test", []() -> int { throw std::bad_alloc(); }, "try less") == 1);
}

#if defined(__unix__) || defined(__APPLE__)
TEST_CASE("a stack below what a program needs is an error") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_STACK, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 160 * 1024;
  REQUIRE(setrlimit(RLIMIT_STACK, &small) == 0);
  const std::string said = gradus_test::message_of([] { gr::detail::check_stack_limit(); });
  REQUIRE(setrlimit(RLIMIT_STACK, &before) == 0);
  CHECK(said == "the stack is limited to 160 KiB, and 256 are needed; raise the limit: ulimit -s 8192");
  CHECK_NOTHROW(gr::detail::check_stack_limit());
}
#endif

TEST_CASE("a flag's message says what it must be and what it is") {
  CHECK_NOTHROW(gr::check_flag(true, "--lr", "a positive number", -1));
  CHECK_THROWS_WITH_AS(gr::check_flag(false, "--lr", "a positive number", -1), "--lr must be a positive number, not -1",
                       gr::bad_flag);
}

TEST_CASE("signals that ask a program to end are noticed while interrupts live") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const gr::interrupts<interrupted_at> stop;
    CHECK_FALSE(stop.noticed());
    std::raise(signal);
    CHECK(stop.noticed());
    std::raise(signal);  // at once: the same request
    CHECK(stop.noticed());
  }
  const bool restored = std::signal(SIGTERM, SIG_DFL) == SIG_DFL;
  CHECK(restored);
}

TEST_CASE("a signal that was ignored before stays ignored") {
  std::signal(SIGTERM, SIG_IGN);
  {
    const gr::interrupts<interrupted_at> stop;
    std::raise(SIGTERM);
    CHECK_FALSE(stop.noticed());
  }
  const bool still_ignored = std::signal(SIGTERM, SIG_DFL) == SIG_IGN;
  CHECK(still_ignored);
}
