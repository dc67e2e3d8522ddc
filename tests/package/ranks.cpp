#include <gradus/ranks/mpi_communicator.hpp>

// Compiled and linked; tests/mpi runs such programs.
int main() {
  gradus::mpi_session session;
  gradus::mpi_communicator comm(session);
  return comm.rank() < comm.size() ? 0 : 1;
}
