// mpi_communicator, on the processes of an MPI job: mpirun -n 4 mpi_conformance. Every process runs every test; one
// that finds a failure says so and ends the job.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // a rank that is ended has not crashed
#include <doctest/doctest.h>

#include <gradus/cpu/access.hpp>
#include <gradus/memory/host_resource.hpp>
#include <gradus/ranks/mpi_communicator.hpp>

#include <exception>

#include "../support/conformance.hpp"

namespace {

using gradus::cpu;
using gradus::index_t;

gradus::mpi_session* session = nullptr;

gradus_test::communicator_model<cpu> model(bool shared_memory) {
  const auto run = [shared_memory](index_t, const gradus_test::rank_function<cpu>& f) {
    gradus::stream stream;
    gradus::host_resource memory;
    gradus::context<cpu> ctx(stream, memory);
    gradus::mpi_communicator comm(*session, {.shared_memory = shared_memory});
    try {
      f(ctx, comm);
    } catch (const std::exception& e) { comm.abandon(e.what()); }
  };
  return {run, {session->size()}, 1};
}

void run_all(bool shared_memory) {
  using namespace gradus_test::conformance;
  const auto ranks = model(shared_memory);
  for (int type = 0; type <= static_cast<int>(gradus::element_type::u8); ++type)
    collectives(ranks, static_cast<gradus::element_type>(type));
  large_collectives(ranks);
  many_in_flight(ranks);
  mismatch(ranks);
}

}  // namespace

TEST_CASE("MPI: collectives through shared memory") { run_all(true); }
TEST_CASE("MPI: collectives by messages") { run_all(false); }

TEST_CASE("MPI: a rank that ends is named to those that go on") {
  gradus::stream stream;
  gradus::host_resource memory;
  gradus::context<cpu> ctx(stream, memory);
  for (const bool shared_memory : {true, false}) {
    gradus::mpi_communicator comm(*session, {.shared_memory = shared_memory});
    if (comm.rank() + 1 == comm.size()) continue;
    CHECK_THROWS_WITH_AS(comm.barrier(ctx), doctest::Contains(("rank " + std::to_string(comm.size() - 1)).c_str()),
                         gradus::rank_failed);
  }
}

TEST_CASE("MPI: a second communicator does not disturb the first") {
  gradus::stream stream;
  gradus::host_resource memory;
  gradus::context<cpu> ctx(stream, memory);
  gradus::mpi_communicator one(*session), two(*session, {.shared_memory = false});
  std::vector<double> a(100'000, 1.0), b(100'000, 2.0);
  auto first = one.all_reduce(ctx, a.data(), a.data(), a.size());
  auto second = two.all_reduce(ctx, b.data(), b.data(), b.size());
  second.wait();
  first.wait();
  CHECK(a.back() == static_cast<double>(session->size()));
  CHECK(b.back() == 2.0 * static_cast<double>(session->size()));
}

int main(int argc, char** argv) {
  gradus::mpi_session started;
  session = &started;
  doctest::Context tests(argc, argv);
  if (started.rank() > 0) tests.setOption("minimal", true);
  const int status = tests.run();
  if (status != 0) started.abandon("tests have failed");
  return status;
}
