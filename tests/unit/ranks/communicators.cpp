#include <doctest/doctest.h>

#include <gradus/cpu/access.hpp>
#include <gradus/memory/host_resource.hpp>
#include <gradus/ranks/texts.hpp>
#include <gradus/ranks/thread_communicator.hpp>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../../support/conformance.hpp"
#include "../../support/floating_modes.hpp"
#include "../../support/message_of.hpp"
#include "../../support/seed.hpp"
#include "../../support/slowed_communicator.hpp"

namespace {

using namespace gradus_test;
using gradus::cpu;
using gradus::element_type;
using gradus::index_t;

// Calls f as the rank of a communicator, with a context of its own.
void with_context(gradus::communicator<cpu>& comm, const rank_function<cpu>& f) {
  gradus::host_resource memory;
  gradus::stream stream;
  gradus::context<cpu> ctx(stream, memory);
  f(ctx, comm);
}

communicator_model<cpu> threads() {
  return {[](index_t ranks, const rank_function<cpu>& f) {
            gradus::run_ranks(ranks, [&](gradus::communicator<cpu>& comm) { with_context(comm, f); });
          },
          {1, 2, 3, 4, 8},
          fresh_seed()};
}
communicator_model<cpu> single() {
  return {[](index_t, const rank_function<cpu>& f) {
            gradus::single_communicator<cpu> comm;
            with_context(comm, f);
          },
          {1},
          fresh_seed()};
}

TEST_CASE("every collective of threads has the elements, and the bits, of its definition") {
  for (const auto type : {element_type::f64, element_type::f32, element_type::bf16, element_type::f16,
                          element_type::i64, element_type::i32, element_type::u16, element_type::u8})
    conformance::collectives(threads(), type);
}

TEST_CASE("so have those of one rank alone") {
  for (const auto type : {element_type::f64, element_type::f32, element_type::bf16, element_type::f16,
                          element_type::i64, element_type::i32, element_type::u16, element_type::u8})
    conformance::collectives(single(), type);
  conformance::large_collectives(single());
  conformance::many_in_flight(single());
}

TEST_CASE("so have large collectives of threads") { conformance::large_collectives(threads()); }

TEST_CASE("many collectives are in flight at once, and waited for in any order") {
  conformance::many_in_flight(threads());
}

TEST_CASE("ranks that call different collectives all fail and learn who called what") {
  conformance::mismatch(threads());
}

TEST_CASE("a rank that abandons its communicator ends the waits of the others, with its reason") {
  conformance::abandoned(threads());
}

TEST_CASE("ranks begin in their caller's floating-point mode, and collectives are summed in that of their start") {
  for (const auto set_mode : unusual_modes()) {
    const usual_mode_again after;
    set_mode();
    const auto mine = marks_of_mode();
    std::atomic<int> alike{0};
    gradus::run_ranks(3, [&](gradus::communicator<cpu>&) { alike += marks_of_mode() == mine; });
    CHECK(alike == 3);
  }
  for (const bool waits : {false, true})  // the rank itself sums, or its progress thread
    gradus::run_ranks(2, [&](gradus::communicator<cpu>& comm) {
      with_context(comm, [&](gradus::context<cpu>& ctx, gradus::communicator<cpu>&) {
        std::vector<float> x(64, comm.rank() == 0 ? 1.0f : 0x1p-30f);
        const auto sum = [&] {
          auto pending = comm.all_reduce(ctx, x.data(), x.data(), x.size());
          if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(20));
          const usual_mode_again after;
          std::fesetround(FE_DOWNWARD);
          pending.wait();
        };
        sum();  // the progress thread begins
        CHECK(x == std::vector<float>(64, 1.0f));
        x.assign(64, comm.rank() == 0 ? 1.0f : 0x1p-30f);
        const usual_mode_again after;
        std::fesetround(FE_UPWARD);
        sum();
        CHECK(x == std::vector<float>(64, 0x1.000002p0f));
      });
    });
}

TEST_CASE("a rank that throws ends the waits of the others, and its exception is the one that is rethrown") {
  conformance::thrown(threads());
}

TEST_CASE("a communicator over a slow link has the results of the one beneath") {
  const auto link = gradus::testing::link_speed{.latency_s = 2e-5, .bytes_per_s = 1e9};
  communicator_model<cpu> slowed = threads();
  slowed.ranks = {1, 3};
  slowed.run = [link](index_t ranks, const rank_function<cpu>& f) {
    gradus::run_ranks(ranks, [&](gradus::communicator<cpu>& comm) {
      gradus::testing::slowed_communicator over(comm, link);
      with_context(over, f);
      CHECK(over.busy_s() > 0);
      CHECK(over.waited_s() > 0);
    });
  };
  conformance::large_collectives(slowed, 1000);
  conformance::many_in_flight(slowed);
  conformance::abandoned(slowed);
}

TEST_CASE("work between start and wait is hidden from a slow link") {
  gradus::run_ranks(2, [](gradus::communicator<cpu>& comm) {
    gradus::testing::slowed_communicator slow(comm, {.latency_s = 0.05});
    with_context(slow, [&](gradus::context<cpu>& ctx, gradus::communicator<cpu>& over) {
      float x = 1;
      auto sum = over.all_reduce(ctx, &x, &x, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(60));  // what is slept too long only hides more
      sum.wait();
      conformance::check(x == 2, "the sum");
      conformance::check(slow.busy_s() > 0.049, "seconds of the link");
    });
  });
}

TEST_CASE("a collective goes on while its rank computes") {
  std::atomic<bool> seen{false};
  gradus::run_ranks(2, [&](gradus::communicator<cpu>& comm) {
    with_context(comm, [&](gradus::context<cpu>& ctx, gradus::communicator<cpu>& of) {
      std::int32_t x = 1;
      auto sum = of.all_reduce(ctx, &x, &x, 1);
      if (of.rank() == 0) {
        sum.wait();
        seen = true;
      } else {
        while (!seen) std::this_thread::yield();  // rank 0 would wait forever if this rank took part by wait() alone
        sum.wait();
      }
      conformance::check(x == 2, "the sum");
    });
  });
}

TEST_CASE("no rank passes a barrier before all have come") {
  for (const index_t ranks : {2, 5}) {
    std::atomic<index_t> came{0};
    gradus::run_ranks(ranks, [&](gradus::communicator<cpu>& comm) {
      with_context(comm, [&](gradus::context<cpu>& ctx, gradus::communicator<cpu>& of) {
        for (index_t round = 1; round <= 50; ++round) {
          ++came;
          of.barrier(ctx);
          conformance::check(came >= round * ranks, "a rank has passed");
          of.barrier(ctx);
        }
      });
    });
  }
}

TEST_CASE("a rank that ends early is named by the others") {
  const std::string message = message_of([] {
    gradus::run_ranks(3, [](gradus::communicator<cpu>& comm) {
      with_context(comm, [](gradus::context<cpu>& ctx, gradus::communicator<cpu>& of) {
        of.barrier(ctx);
        if (of.rank() != 1) of.barrier(ctx);
      });
    });
  });
  CHECK(message == "communicator: rank 1 of 3 has ended");
}

TEST_CASE("errors of communicators say what is wrong") {
  CHECK(message_of([] { gradus::thread_group(65); }) == "thread_group: 65 ranks; there may be 1 to 64");
  CHECK(message_of([] { gradus::thread_group(0); }) == "thread_group: 0 ranks; there may be 1 to 64");
  gradus::thread_group two(2);
  CHECK(message_of([&] { gradus::thread_communicator(two, 2); }) == "communicator: rank 2 of 2 ranks");
  gradus::single_communicator<cpu> comm;
  with_context(comm, [](gradus::context<cpu>& ctx, gradus::communicator<cpu>& of) {
    float x = 0;
    CHECK(message_of([&] { of.broadcast(ctx, &x, 1, 1).wait(); }) ==
          "communicator.broadcast: there is no rank 1; there are 1");
    CHECK(message_of([&] {
            of.all_gather(ctx, &x, &x, std::vector<index_t>{1, 1}).wait();
          }) == "communicator: give one count for each of the 1 ranks");
  });
}

TEST_CASE("what one rank throws, all throw: the error of its kind") {
  for (const bool memory : {false, true}) {
    std::atomic<int> as_expected = 0;
    gradus::run_ranks(4, [&](gradus::communicator<cpu>& comm) {
      with_context(comm, [&](gradus::context<cpu>& ctx, gradus::communicator<cpu>& of) {
        try {
          gradus::try_together(ctx, of, [&] {
            if (of.rank() == 2 && memory) throw gradus::out_of_memory("no room");
            if (of.rank() == 2) throw gradus::error("no room");
          });
        } catch (const gradus::out_of_memory& e) {
          as_expected += memory && e.what() == std::string("no room");
        } catch (const gradus::error& e) { as_expected += !memory && e.what() == std::string("no room"); }
      });
    });
    CHECK(as_expected == 4);
  }
}

TEST_CASE("collectives of different numbers do not belong together") {
  const std::string message = message_of([] {
    gradus::run_ranks(2, [](gradus::communicator<cpu>& comm) {
      with_context(comm, [](gradus::context<cpu>& ctx, gradus::communicator<cpu>& of) {
        std::vector<float> x(12);
        of.tagged(5).all_reduce(ctx, x.data(), x.data(), 12).wait();
        of.tagged(of.rank() + 1).all_reduce(ctx, x.data(), x.data(), 12).wait();
      });
    });
  });
  CHECK(message ==
        "communicator: the ranks have called different collectives: rank 0: all_reduce of 12 f32 number 1 (sum, tree); "
        "rank 1: all_reduce of 12 f32 number 2 (sum, tree)");
}

TEST_CASE("ranks that differ are named, with what each called") {
  const std::string message = message_of([] {
    gradus::run_ranks(4, [](gradus::communicator<cpu>& comm) {
      with_context(comm, [](gradus::context<cpu>& ctx, gradus::communicator<cpu>& of) {
        std::vector<float> x(12);
        of.all_reduce(ctx, x.data(), x.data(), of.rank() == 2 ? 11 : 12).wait();
      });
    });
  });
  CHECK(message ==
        "communicator: the ranks have called different collectives: ranks 0 to 1: all_reduce of 12 f32 (sum, tree); "
        "rank 2: all_reduce of 11 f32 (sum, tree); rank 3: all_reduce of 12 f32 (sum, tree)");
}

TEST_CASE("sixty-four ranks exchange and reduce") {
  communicator_model<cpu> many = threads();
  many.ranks = {64};
  conformance::large_collectives(many, 700);
}

}  // namespace
