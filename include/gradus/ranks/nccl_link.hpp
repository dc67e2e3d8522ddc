#pragma once
// A communicator of NCCL: how ranks find each other, whose calls are checked, and what ends it if a rank fails.

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../gpu/device.hpp"
#include "../io/atomic_file.hpp"
#include "communicator.hpp"
#include "rank_watch.hpp"

namespace gradus {

/// What the ranks of an nccl_communicator find each other by: one rank creates it, and all need it. Serves once.
struct nccl_id {
  ncclUniqueId value{};
  std::filesystem::path file = {};  ///< that rank 0 removes when all ranks have come; empty: none

  /// A new one. Throws error if NCCL finds no network interface.
  static nccl_id create() {
    nccl_id id;
    if (const ncclResult_t status = ncclGetUniqueId(&id.value); status != ncclSuccess)
      throw error(std::string("ncclGetUniqueId: ") + ncclGetErrorString(status) + ": " + ncclGetLastError(nullptr));
    return id;
  }
  /// One for the ranks of another communicator, which are to have a GPU each: rank 0 creates it.
  static nccl_id shared_by(communicator<cpu>& ranks, context<cpu>& ctx) {
    nccl_id id = ranks.rank() == 0 ? create() : nccl_id();
    ranks.broadcast(ctx, reinterpret_cast<std::uint8_t*>(id.value.internal), sizeof id.value.internal).wait();
    return id;
  }
  /// One for processes that share a file system: rank 0 writes it to `path`, where no file may be, and the others wait
  /// for it. Throws error if it does not come in time, or if there is a file of an earlier run.
  static nccl_id through_file(const std::filesystem::path& path, index_t rank,
                              std::chrono::milliseconds patience = std::chrono::seconds(60)) {
    nccl_id id;
    if (rank == 0) {
      id = create();
      write(id, path);
    } else read(id, path, patience);
    id.file = path;
    return id;
  }

 private:
  static void write(const nccl_id& id, const std::filesystem::path& path) {
    if (std::filesystem::exists(path))
      throw error("nccl_id: " + path.string() +
                  " is there already, from a run that ended before all ranks had come; "
                  "remove it, or give another path");
    write_file_atomically(path, {id.value.internal, sizeof id.value.internal});
  }
  static void read(nccl_id& id, const std::filesystem::path& path, std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
      std::ifstream in(path, std::ios::binary);
      if (in.read(id.value.internal, sizeof id.value.internal)) return;
      if (std::chrono::steady_clock::now() > end)
        throw error("nccl_id: rank 0 has not written " + path.string() + " within " +
                    std::to_string(patience.count() / 1000) +
                    " s; start it with the same path, on a file system that "
                    "all ranks share");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
};

namespace cuda_kit {

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 1),
              "gradus needs NCCL 2.19.1 or later: earlier ones cannot end what waits for a rank that failed");
/// Throws error if the program runs with an NCCL that cannot end what waits for a rank that failed (NVIDIA/nccl#992).
inline void check_nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess && version >= NCCL_VERSION(2, 19, 1)) return;
  throw error("nccl_communicator: NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
              " was loaded; it must be 2.19.1 or later");
}

/// Ends the process, with a line that says why, if it exists ten seconds after reason() is no longer empty: a call of
/// NCCL does not return, and nothing else would end it (NVIDIA/nccl#863, #1777).
class nccl_deadline {
 public:
  explicit nccl_deadline(std::function<std::string()> reason)
      : reason_(std::move(reason)), watcher_([this] { watch(); }) {}
  nccl_deadline(const nccl_deadline&) = delete;
  nccl_deadline& operator=(const nccl_deadline&) = delete;
  ~nccl_deadline() {
    {
      const std::lock_guard held(lock_);
      over_ = true;
    }
    changed_.notify_one();
    watcher_.join();
  }

 private:
  void watch() {
    std::unique_lock held(lock_);
    for (int late = 0; !over_; changed_.wait_for(held, std::chrono::milliseconds(100))) {
      const std::string why = reason_();
      late = why.empty() ? 0 : late + 1;
      if (late <= 100) continue;
      std::fprintf(stderr, "nccl_communicator: %s; NCCL still waits after ten seconds, so this process ends\n",
                   why.c_str());
      std::_Exit(1);
    }
  }

  std::function<std::string()> reason_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watcher_;
};

/// NCCL's communicator. A thread looks after it: if another rank has failed, it aborts what runs, which would otherwise
/// never end, and later calls throw rank_failed.
class nccl_link {
 public:
  /// Returns when all ranks have come. Throws error if NCCL refuses; ends the process if a rank fails before that.
  nccl_link(cuda_device on, const nccl_id& id, index_t rank, index_t size)
      : device_(on), others_(folder_of(id), rank, size) {
    check_nccl_version();
    const device_guard guard(device_);
    ncclComm_t comm = nullptr;
    const ncclResult_t status = [&] {
      const nccl_deadline limit([this] { return others_.failure(); });
      return ncclCommInitRank(&comm, static_cast<int>(size), id.value, static_cast<int>(rank));
    }();
    if (status != ncclSuccess) throw error(message("ncclCommInitRank", status, nullptr));
    comm_ = comm;
    if (rank == 0 && !id.file.empty()) {
      std::error_code ignored;
      std::filesystem::remove(id.file, ignored);
    }
    watcher_ = std::thread([this] { watch(); });
  }
  nccl_link(const nccl_link&) = delete;
  nccl_link& operator=(const nccl_link&) = delete;
  /// Ends the link: the other ranks must not need this one any more.
  ~nccl_link() {
    {
      const std::lock_guard held(end_lock_);
      ended_ = true;
    }
    end_.notify_one();
    watcher_.join();
    const device_guard guard(device_);
    if (comm_ != nullptr) static_cast<void>(ncclCommDestroy(comm_));
  }

  /// Throws rank_failed if a rank has failed.
  void check() {
    const std::lock_guard held(lock_);
    ask_library();
    if (!failure_.empty()) throw rank_failed(failure_);
  }
  /// Calls f(call), which submits a group of calls as call("ncclSend", &ncclSend, its arguments without communicator
  /// and stream). Throws rank_failed, or error if NCCL refuses.
  template <class F>
  void group(cudaStream_t on, const F& f) {
    const std::lock_guard held(lock_);
    if (!failure_.empty()) throw rank_failed(failure_);
    const device_guard guard(device_);
    const char* last = "ncclGroupStart";
    ncclResult_t status = ncclGroupStart();
    if (status == ncclSuccess) {
      f([&](const char* name, auto* function, auto... arguments) {
        if (status != ncclSuccess) return;
        last = name;
        status = function(arguments..., comm_, on);
      });
      const ncclResult_t ended = ncclGroupEnd();
      if (status == ncclSuccess) status = ended;
    }
    if (status == ncclSuccess) return;
    const std::string text = message(last, status, comm_);
    if (status != ncclRemoteError && status != ncclSystemError && comm_ != nullptr) throw error(text);
    fail(text);
    throw rank_failed(failure_);
  }
  /// Ends it for all ranks. If another rank has failed before, that is the reason which they are told.
  void abandon(const std::string& why) noexcept {
    const std::lock_guard held(lock_);
    if (failure_.empty()) others_.end(why);
    fail("this rank has ended: " + why);
  }

 private:
  static std::string message(const char* call, ncclResult_t status, ncclComm_t comm) {
    const std::string detail = ncclGetLastError(comm);
    return std::string(call) + ": " + ncclGetErrorString(status) + (detail.empty() ? "" : ": " + detail);
  }
  // By a number of the id, which is random: ranks of one machine find each other, whatever brought them the id.
  static std::filesystem::path folder_of(const nccl_id& id) {
    std::uint64_t number = 0xCBF29CE484222325u;
    for (const char c : id.value.internal) number = (number ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    return std::filesystem::temp_directory_path() / ("gradus-nccl-" + std::to_string(number));
  }
  // Asks NCCL for errors of what runs. The reason of another rank is better than that NCCL lost it.
  void ask_library() {
    ncclResult_t status = ncclSuccess;
    if (comm_ == nullptr || ncclCommGetAsyncError(comm_, &status) != ncclSuccess) return;
    if (status == ncclSuccess || status == ncclInProgress) return;
    const std::string reason = others_.failure();
    fail(reason.empty() ? message("nccl_communicator", status, comm_) : reason);
  }
  // Ends what runs, so that streams go on, with results that mean nothing.
  void fail(const std::string& why) noexcept {
    if (failure_.empty()) failure_ = why;
    abort();
  }
  void abort() noexcept {
    const device_guard guard(device_);
    const ncclComm_t comm = comm_.exchange(nullptr);
    if (comm == nullptr) return;
    const nccl_deadline limit([] { return std::string("a rank has failed"); });
    static_cast<void>(ncclCommAbort(comm));
  }
  void watch() {
    constexpr int most_missed = 30;  // looks
    std::unique_lock held(end_lock_);
    for (int missed = 0; !ended_; end_.wait_for(held, std::chrono::milliseconds(100))) {
      if (lock_.try_lock()) {
        const std::lock_guard adopted(lock_, std::adopt_lock);
        missed = 0;
        ask_library();
        if (const std::string reason = others_.failure(); !reason.empty()) fail(reason);
      } else if (++missed > most_missed && !others_.failure().empty()) abort();  // the rank waits within a call
    }
  }

  cuda_device device_;
  rank_watch others_;
  std::atomic<ncclComm_t> comm_ = nullptr;
  std::mutex lock_;  // of calls of NCCL, and of:
  std::string failure_;
  std::mutex end_lock_;
  std::condition_variable end_;
  bool ended_ = false;
  std::thread watcher_;
};

}  // namespace cuda_kit

}  // namespace gradus
