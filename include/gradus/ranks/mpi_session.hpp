#pragma once
// MPI in a process: its start and end, calls from several threads, and the end of all ranks when one fails.

#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1  // MPI's C++ bindings, which MPI 3 removed: they need a library of their own
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>

#include "communicator.hpp"

namespace gradus {

/// Starts MPI, and ends it when destroyed, unless the program has started it before. It must outlive the communicators
/// made with it. Throws error if MPI does not let several threads call it in turn (MPI_THREAD_SERIALIZED), and if the
/// processes were started by another MPI's mpirun.
///
/// If an exception leaves the session's scope, all ranks are ended.
class mpi_session {
 public:
  mpi_session() {
    int started = 0, level = 0;
    MPI_Initialized(&started);
    if (started != 0) MPI_Query_thread(&level);
    else MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    ends_ = started == 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (const std::string wrong = problem(level); !wrong.empty()) {
      if (ends_) MPI_Finalize();
      throw error("mpi_session: " + wrong);
    }
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank_);
    MPI_Comm_size(node, &node_size_);
    MPI_Comm_free(&node);
  }
  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;
  ~mpi_session() {
    if (std::uncaught_exceptions() > exceptions_) abandon("ended by an exception");
    if (ends_) MPI_Finalize();
  }

  index_t rank() const { return static_cast<index_t>(rank_); }            ///< of this process, from 0
  index_t size() const { return static_cast<index_t>(size_); }            ///< number of processes
  index_t node_rank() const { return static_cast<index_t>(node_rank_); }  ///< among the processes of this machine
  index_t node_size() const { return static_cast<index_t>(node_size_); }  ///< number of processes of this machine

  /// Calls f(), which calls a function of MPI and returns its status; throws rank_failed with the text of an error. MPI
  /// is in one call at a time, whatever threads use the session.
  template <class F>
  void call(const F& f) {
    const std::lock_guard in_turn(mutex_);
    const int status = f();
    if (status == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING + 1] = {};
    int length = 0;
    MPI_Error_string(status, text, &length);
    throw rank_failed("rank " + std::to_string(rank_) + ": MPI: " + text);
  }

  /// Calls f(), which frees something, as call() does, but ignores errors: nobody can use them.
  template <class F>
  void end(const F& f) noexcept {
    const std::lock_guard in_turn(mutex_);
    f();
  }

  /// Prints "rank R: why" on stderr and ends the processes of all ranks.
  [[noreturn]] void abandon(const std::string& why) noexcept {
    std::fprintf(stderr, "rank %d: %s\n", rank_, why.c_str());
    std::fflush(stderr);
    // A thread that is in a call leaves it soon, unless it is stuck there.
    const bool in_turn = mutex_.try_lock_for(std::chrono::seconds(1));
    MPI_Abort(MPI_COMM_WORLD, 1);
    if (in_turn) mutex_.unlock();
    std::abort();
  }

 private:
  // Why the processes cannot be ranks; empty if they can.
  std::string problem(int level) const {
    if (level < MPI_THREAD_SERIALIZED)
      return "MPI must be started with MPI_THREAD_SERIALIZED or more, and it gives less";
    // The mpirun of another MPI starts processes, each of which this one takes for the only one.
    for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
      const char* const started = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here changes it
      if (size_ == 1 && started != nullptr && std::atoi(started) > 1)
        return std::string(started) +
               " processes were started, and each finds itself alone: use the mpirun of the MPI that the program is "
               "linked with";
    }
    return {};
  }

  std::timed_mutex mutex_;
  int exceptions_ = std::uncaught_exceptions();
  int rank_ = 0, size_ = 1, node_rank_ = 0, node_size_ = 1;
  bool ends_ = false;
};

}  // namespace gradus
