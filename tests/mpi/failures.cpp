// Ranks of which one fails: mpirun -n 4 mpi_failures WHAT [RANK]. They reduce until then; WHAT is
//   reduce    they go on for ever; each prints its process id
//   throw     RANK throws an exception that main() catches
//   leave     RANK destroys its communicator and goes on to something else
//   mismatch  RANK calls another collective
#include <gradus/cpu/access.hpp>
#include <gradus/memory/host_resource.hpp>
#include <gradus/ranks/mpi_communicator.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void run(gradus::mpi_session& session, const std::string& what, gradus::index_t rank) {
  gradus::stream stream;
  gradus::host_resource memory;
  gradus::context<gradus::cpu> ctx(stream, memory);
  gradus::mpi_communicator comm(session, {.shared_memory = std::getenv("BY_MESSAGES") == nullptr});
  std::vector<float> data(1'000'000);
  for (int step = 0; step < 100 || what == "reduce"; ++step) {
    comm.all_reduce(ctx, data.data(), data.data(), data.size()).wait();
    if (what == "reduce" && step == 10) {
      std::printf("rank %d %d\n", static_cast<int>(comm.rank()), static_cast<int>(getpid()));
      std::fflush(stdout);
    }
    if (step < 50 || comm.rank() != rank) continue;
    if (what == "throw") throw std::runtime_error("there is no data");
    if (what == "leave") return;
    if (what == "mismatch") comm.broadcast(ctx, data.data(), 10).wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "reduce";
  try {
    gradus::mpi_session session;
    try {
      run(session, what, argc > 2 ? static_cast<gradus::index_t>(std::atoi(argv[2])) : 0);
    } catch (const gradus::rank_failed& e) {
      if (session.rank() == 0) std::fprintf(stderr, "%s\n", e.what());
      return 3;
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
