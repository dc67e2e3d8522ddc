#pragma once
// Notices when a rank of the same machine ends, and tells the others why.

#include <filesystem>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/extent.hpp"

namespace gradus {

/// One rank's entry in a folder that ranks of one machine share, processes or threads: a file that is locked while the
/// rank works. The operating system frees the lock of a process that dies, however it does. Ranks on other machines
/// have no file here and are not watched.
class rank_watch {
 public:
  /// Creates the folder, where there is none, and the file. Throws error if it cannot.
  rank_watch(std::filesystem::path folder, index_t rank, index_t size);
  rank_watch(const rank_watch&) = delete;
  rank_watch& operator=(const rank_watch&) = delete;
  /// The rank has done its work: removes the file, unless it has ended, and the folder if no rank works any more.
  ~rank_watch();

  /// Tells the other ranks that this one ends, and why.
  void end(std::string_view why) noexcept;
  /// "rank 3 has ended: its disk is full" if another rank has ended before its work was done; otherwise empty. The
  /// files of ranks must be there already.
  std::string failure() const;

 private:
  // The text of a rank that has ended; empty if it works, has done its work or is elsewhere.
  std::string end_of(index_t rank) const;
  std::filesystem::path file_of(index_t rank) const { return folder_ / ("rank-" + std::to_string(rank)); }

  std::filesystem::path folder_;
  index_t rank_, size_;
  int file_ = -1;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "rank_watch.ipp"
#endif
