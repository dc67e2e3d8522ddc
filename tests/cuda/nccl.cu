// Ranks with a GPU each, over NCCL.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <gradus/memory/host_resource.hpp>
#include <gradus/ranks/thread_communicator.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../support/conformance.hpp"
#include "../support/message_of.hpp"
#include "../support/scratch_folder.hpp"
#include "ranks.hpp"

namespace suite = gradus_test::conformance;

namespace {

/// What all communicators must do, with this much memory for what arrives.
gradus_test::communicator_model<gr::cuda> model(std::size_t staging_bytes) {
  const auto run = [staging_bytes](gr::index_t ranks, const gradus_test::rank_function<gr::cuda>& f) {
    with_ranks(static_cast<int>(ranks), [&](auto& comm, auto& ctx) { f(ctx, comm); }, {.staging_bytes = staging_bytes});
  };
  return {run, {1, 2, 4}, gradus_test::fresh_seed()};
}

/// This program once more, with one of the cases that otherwise are skipped: an emulator counts the end of a rank as a
/// mistake of the program. `sets` are variables of the environment.
std::FILE* child(const std::string& sets, const std::string& name) {
  return popen((sets + "/proc/$PPID/exe -ns -tc='" + name + "' 2>&1").c_str(), "r");
}
/// What each prints.
std::vector<std::string> said_by(const std::vector<std::FILE*>& children) {
  std::vector<std::string> all;
  for (std::FILE* const from : children) {
    REQUIRE(from != nullptr);
    std::string& said = all.emplace_back();
    for (int c = std::fgetc(from); c != EOF; c = std::fgetc(from)) said += static_cast<char>(c);
    pclose(from);
  }
  return all;
}

}  // namespace

TEST_CASE(
    "ranks with a GPU each move and reduce elements of all types, in place and not, in counts that none divides") {
  if (fewer_gpus_than(4)) return;
  for (const auto type : {gr::element_type::f64, gr::element_type::f32, gr::element_type::bf16, gr::element_type::f16,
                          gr::element_type::i64, gr::element_type::i32, gr::element_type::u16, gr::element_type::u8}) {
    CAPTURE(static_cast<int>(type));
    const auto all = model(4096);
    CAPTURE(all.seed);
    CHECK_NOTHROW(suite::collectives(all, type));
  }
}

TEST_CASE("larger arrays go in chunks, or at once") {
  if (fewer_gpus_than(4)) return;
  for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{4} << 20}) {
    const auto all = model(bytes);
    CAPTURE(all.seed);
    CHECK_NOTHROW(suite::large_collectives(all, 30'007));
  }
}

TEST_CASE("collectives may all be under way, and waited for in any order") {
  if (fewer_gpus_than(4)) return;
  const auto all = model(4096);
  CAPTURE(all.seed);
  CHECK_NOTHROW(suite::many_in_flight(all));
}

TEST_CASE("a captured sum over ranks adds up what is there at each launch") {
  if (fewer_gpus_than(4)) return;
  with_ranks(4, [](gr::nccl_communicator& comm, gr::context<gr::cuda>& ctx) {
    using gr::cuda_kit::check;
    auto x = gr::full<float, gr::shape<1000>>(ctx, static_cast<float>(comm.rank()));
    comm.all_reduce(ctx, x.data(), x.data(), 1000).wait();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launched = nullptr;
    check(cudaStreamBeginCapture(ctx.stream().handle(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    comm.all_reduce(ctx, x.data(), x.data(), 1000).wait();
    check(cudaStreamEndCapture(ctx.stream().handle(), &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&launched, graph, 0), "cudaGraphInstantiate");
    for (int launch = 0; launch < 2; ++launch)
      check(cudaGraphLaunch(launched, ctx.stream().handle()), "cudaGraphLaunch");
    comm.all_reduce(ctx, x.data(), x.data(), 1000).wait();
    suite::check(gr::to_host(x) == std::vector<float>(1000, 6 * 4 * 4 * 4), "a captured sum");
    check(cudaGraphExecDestroy(launched), "cudaGraphExecDestroy");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  });
}

TEST_CASE("ranks of another communicator need no id") {
  if (fewer_gpus_than(3)) return;
  gr::run_ranks(3, [](gr::communicator<gr::cpu>& ranks) {
    gr::stream stream;
    gr::host_resource heap;
    gr::context<gr::cpu> on_cpu(stream, heap);
    rank_on_gpu on(static_cast<int>(ranks.rank()));
    gr::nccl_communicator comm(on.ctx, ranks, on_cpu);
    suite::check(comm.rank() == ranks.rank() && comm.size() == 3, "the number of the rank");
    auto x = gr::full<std::int32_t, gr::shape<10>>(on.ctx, 1);
    comm.all_reduce(on.ctx, x.data(), x.data(), 10).wait();
    suite::check(gr::to_host(x)[9] == 3, "the sum");
    comm.barrier(on.ctx);
  });
}

TEST_CASE("in a child process, a rank ends" * doctest::skip()) {
  const bool thrown = std::getenv("GRADUS_TEST_THROWS") != nullptr;
  struct no_data {};
  const auto run = [&] {
    with_ranks(4, [&](gr::nccl_communicator& comm, gr::context<gr::cuda>& ctx) {
      auto x = gr::full<float, gr::shape<1000>>(ctx, 1.0f);
      if (comm.rank() == 2) {
        comm.all_reduce(ctx, x.data(), x.data(), 1000).wait();
        if (thrown) throw no_data();
        return comm.abandon("its disk is full");
      }
      const auto begin = std::chrono::steady_clock::now();
      const std::string told = suite::failure_of([&] {
        comm.all_reduce(ctx, x.data(), x.data(), 1000).wait();
        const auto pending = comm.all_reduce(ctx, x.data(), x.data(), 1000);
        comm.barrier(ctx);
      });
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
      CHECK(told == (thrown ? "rank 2 has ended: of an exception" : "rank 2 has ended: its disk is full"));
      CHECK_THROWS_AS(comm.barrier(ctx), gr::rank_failed);
    });
  };
  if (thrown) CHECK_THROWS_AS(run(), no_data);
  else CHECK_NOTHROW(run());
}

TEST_CASE("in a child process, a rank of processes" * doctest::skip()) {
  const auto rank = static_cast<gr::index_t>(std::atoi(std::getenv("GRADUS_TEST_RANK")));
  const auto id = gr::nccl_id::through_file(std::getenv("GRADUS_TEST_FILE"), rank);
  rank_on_gpu on(static_cast<int>(rank));
  gr::nccl_communicator comm(on.ctx, id, rank, 3);
  auto x = gr::full<float, gr::shape<1000>>(on.ctx, 1.0f);
  comm.all_reduce(on.ctx, x.data(), x.data(), 1000).wait();
  CHECK(gr::to_host(x)[999] == 3);
  comm.barrier(on.ctx);
  if (rank == 1) std::raise(SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(suite::failure_of([&] { comm.barrier(on.ctx); }) ==
        "rank 1 has ended: without a word: it was killed, or crashed");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

TEST_CASE("in a child process, a rank waits for others" * doctest::skip()) {
  const auto rank = static_cast<gr::index_t>(std::atoi(std::getenv("GRADUS_TEST_RANK")));
  const auto id = gr::nccl_id::through_file(std::getenv("GRADUS_TEST_FILE"), rank);
  rank_on_gpu on(static_cast<int>(rank));
  std::thread end;
  if (rank == 1)
    end = std::thread([] {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      std::raise(SIGKILL);
    });
  const gr::nccl_communicator comm(on.ctx, id, rank, 3);  // there is no rank 2
}

TEST_CASE("a rank that ends ends the others, which are told why") {
  if (fewer_gpus_than(4)) return;
  for (const std::string set : {"", "GRADUS_TEST_THROWS=1 "}) {
    const std::string said = said_by({child(set, "*a rank ends")}).front();
    CAPTURE(said);
    CHECK(said.find(" 1 passed | 0 failed") != std::string::npos);
  }
}

TEST_CASE("processes find each other through a file, and one that is killed ends the others") {
  if (fewer_gpus_than(3)) return;
  const gradus_test::scratch_folder folder;
  const auto file = folder.path / "id";
  std::vector<std::FILE*> children;
  for (const int rank : {2, 1, 0})
    children.push_back(child("GRADUS_TEST_RANK=" + std::to_string(rank) + " GRADUS_TEST_FILE=" + file.string() + " ",
                             "*a rank of processes"));
  const auto said = said_by(children);
  for (const std::size_t i : {0, 2}) {
    CAPTURE(said[i]);
    CHECK(said[i].find(" 1 passed | 0 failed") != std::string::npos);
  }
  CHECK(said[1].find(" 1 passed | 0 failed") == std::string::npos);
  CHECK(!std::filesystem::exists(file));
}

TEST_CASE("a rank that is killed before all have come ends those that wait for it, with a line") {
  if (fewer_gpus_than(3)) return;
  const gradus_test::scratch_folder folder;
  std::vector<std::FILE*> children;
  for (const int rank : {1, 0})
    children.push_back(
        child("GRADUS_TEST_RANK=" + std::to_string(rank) + " GRADUS_TEST_FILE=" + (folder.path / "id").string() + " ",
              "*a rank waits for others"));
  const std::string said = said_by(children).back();
  CAPTURE(said);
  CHECK(said.find("nccl_communicator: rank 1 has ended: without a word: it was killed, or crashed; NCCL still waits "
                  "after ten seconds, so this process ends\n") != std::string::npos);
}

TEST_CASE("a file of an earlier run is refused, and one that does not come is reported") {
  if (no_gpu()) return;
  const gradus_test::scratch_folder folder;
  const auto file = folder.path / "id";
  CHECK(gradus_test::message_of([&] { gr::nccl_id::through_file(file, 1, std::chrono::seconds(1)); }) ==
        "nccl_id: rank 0 has not written " + file.string() +
            " within 1 s; start it with the same path, on a file system that all ranks share");
  static_cast<void>(gr::nccl_id::through_file(file, 0));
  static_cast<void>(gr::nccl_id::through_file(file, 1));
  CHECK(gradus_test::message_of([&] { gr::nccl_id::through_file(file, 0); }) ==
        "nccl_id: " + file.string() +
            " is there already, from a run that ended before all ranks had come; remove it, or give another path");
}
