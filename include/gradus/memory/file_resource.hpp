#pragma once
// Memory in a mapped file, for blocks that are seldom used as a whole.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "../core/config.hpp"
#include "diagnostics.hpp"
#include "resource.hpp"

namespace gradus {

/// CPU memory whose blocks are mapped from a file, so that they may exceed the machine's memory. The file has no name
/// and is gone when the program ends, however it ends. A new block's bytes are 0, and its disk space is reserved.
///
/// The system reads a page at its first use. It writes changed pages to the disk and reuses their memory when it needs
/// some. drop() removes pages from the process's resident memory at once. A request does so for the block before it, so
/// a model that is initialised block by block is never resident as a whole. read_ahead() reads pages before their use.
/// Linux only.
class file_resource final : public memory_resource {
 public:
  /// Makes the file in `folder`, which is on a disk: a file system in memory would take memory. Throws error, which
  /// names the folder, if that fails.
  explicit file_resource(const std::filesystem::path& folder);
  /// Ends the program with one line on stderr if blocks are in use.
  ~file_resource() override;

  /// Bytes of all blocks on the disk, in whole pages.
  std::size_t bytes() const;

  // The following do nothing for bytes that are not in the file.

  /// Removes the pages of these bytes, the first and last whole ones included, from the process's resident memory. They
  /// keep their values; the next use maps them again.
  void drop(const void* begin, std::size_t bytes) const noexcept;
  /// Starts to write the pages that were changed to the disk, so that the system can reuse their memory at once.
  void write_back(const void* begin, std::size_t bytes) const noexcept;
  /// Has a thread of the resource read these pages from the disk and make them resident, so that their use waits for
  /// nothing. Returns the number of the job: finish it before a drop() of the same bytes. (Before Linux 5.14 the pages
  /// are read, but not resident.)
  std::uint64_t read_ahead(const void* begin, std::size_t bytes);
  /// Has that thread copy `bytes` from `begin`, which must be in the file, to `to`. Returns the number of the job. The
  /// pages do not become resident.
  std::uint64_t start_copy(const void* begin, void* to, std::size_t bytes);
  /// Waits for the job of that number, and for those before it. Throws error, once, if a copy failed.
  void finish(std::uint64_t number);

 private:
  struct block {
    std::size_t bytes;   // whole pages
    std::size_t offset;  // in the file
  };
  struct job {
    const void* begin;  // null of a copy
    std::size_t offset;
    void* to;
    std::size_t bytes;
  };
  struct range {
    std::byte* begin;
    std::size_t bytes;
    std::size_t offset;
  };

  void* do_allocate(const memory_request& request, stream&) override;
  void do_deallocate(void* memory, const memory_request& request, stream&) noexcept override;
  // The pages of bytes that are in one block; empty for others.
  range pages_of(const void* begin, std::size_t bytes) const noexcept;
  std::uint64_t submit(const job& what);
  void work() noexcept;
  void run(const job& what);

  std::filesystem::path folder_;
  int file_ = -1;
  std::size_t end_ = 0;                       // of the file; offsets are not used twice
  std::size_t bytes_ = 0;                     // of all blocks
  std::map<const std::byte*, block> blocks_;  // by address
  struct {
    const void* begin = nullptr;
    std::size_t bytes = 0;
  } latest_;  // the block requested last

  std::thread thread_;  // started by the first job
  std::mutex mutex_;    // of what follows
  std::condition_variable changed_;
  std::deque<job> jobs_;
  std::uint64_t submitted_ = 0, done_ = 0;
  std::string failure_;
  bool ends_ = false;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "file_resource.ipp"
#endif
