#pragma once
// The ranks of an MPI job as a team.

#include <cstdio>

#include "../ranks/mpi_communicator.hpp"
#include "team.hpp"

namespace gradus {

/// Calls f(team&) on this process, a rank of the job that mpirun or srun started. `count` is what the user asked for;
/// at most 1: nothing. Returns the exit status; of what is wrong with a flag rank 0 prints one line, which begins with
/// `program`. Throws what f throws otherwise.
template <class F>
int on_mpi_ranks(const char* program, int count, const F& f) {
  mpi_session session;
  mpi_communicator host(session);
  try {
    if (count > 1 && static_cast<index_t>(count) != host.size())
      throw bad_flag("--ranks: mpirun decides how many there are, " + std::to_string(host.size()));
    team ranks(host, session.node_rank(), session.node_size(), /*process_per_rank=*/true);
    detail::call_rank(ranks, f);
  } catch (const bad_flag& e) {  // each rank throws it
    if (host.rank() == 0) std::fprintf(stderr, "%s: %s\n", program, e.what());
    return 2;
  } catch (const leader_failed&) { return 2; }
  return 0;
}

}  // namespace gradus
