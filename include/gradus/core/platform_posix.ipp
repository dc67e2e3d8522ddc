#pragma once
// Linux and macOS.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#elif defined(__APPLE__)
#include <xlocale.h>
#endif

#include "platform.hpp"

namespace gradus::platform {  // shared by all builds

// ---- files ----------------------------------------------------------------------------------------------------------

GRADUS_IMPL int open_file(const path_character* path, file_use use) {
  switch (use) {
    case file_use::read:
      return ::open(path, O_RDONLY | O_CLOEXEC);
    case file_use::create:
      return ::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    case file_use::create_private:
      return ::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    case file_use::take:
      return ::open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    case file_use::append:
      return ::open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  return -1;
}
GRADUS_IMPL void close_file(int file) { ::close(file); }
GRADUS_IMPL std::FILE* stream_of(int file, const char* mode) {
  std::FILE* const stream = ::fdopen(file, mode);
  const int reason = errno;
  if (stream == nullptr) ::close(file);
  errno = reason;
  return stream;
}
GRADUS_IMPL std::FILE* open_stream(const path_character* path, const char* mode) { return std::fopen(path, mode); }
GRADUS_IMPL int file_of(std::FILE* stream) { return ::fileno(stream); }
GRADUS_IMPL bool seek(std::FILE* stream, std::int64_t position) {
  return ::fseeko(stream, static_cast<off_t>(position), SEEK_SET) == 0;
}

GRADUS_IMPL file_state described(const struct stat& s) {
#if defined(__APPLE__)
  const auto& changed = s.st_mtimespec;
#else
  const auto& changed = s.st_mtim;
#endif
  return {S_ISREG(s.st_mode), static_cast<std::uint64_t>(s.st_size), changed.tv_sec,
          changed.tv_nsec,    static_cast<std::uint64_t>(s.st_dev),  static_cast<std::uint64_t>(s.st_ino)};
}
GRADUS_IMPL bool state_of(int file, file_state& to) {
  struct stat found {};
  if (::fstat(file, &found) != 0) return false;
  to = described(found);
  return true;
}
GRADUS_IMPL bool state_of(const path_character* path, file_state& to) {
  struct stat found {};
  if (::stat(path, &found) != 0) return false;
  to = described(found);
  return true;
}

GRADUS_IMPL std::ptrdiff_t read_at(int file, void* to, std::size_t bytes, std::uint64_t at) {
  for (;;) {
    const std::ptrdiff_t got = ::pread(file, to, bytes, static_cast<off_t>(at));
    if (got >= 0 || errno != EINTR) return got;
  }
}
GRADUS_IMPL std::ptrdiff_t write_bytes(int file, const void* from, std::size_t bytes) {
  return ::write(file, from, bytes);
}

GRADUS_IMPL bool lock_file(int file, bool shared) { return ::flock(file, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0; }
GRADUS_IMPL int lock_folder(const path_character* folder) {
  const int file = ::open(folder, O_RDONLY | O_CLOEXEC);
  if (file < 0 || lock_file(file)) return file;
  const int reason = errno;
  ::close(file);
  errno = reason;
  return -1;
}

GRADUS_IMPL bool holds_folder(int lock, const path_character* folder) {
  file_state locked{}, named{};
  if (!state_of(lock, locked)) return true;
  return state_of(folder, named) && named.number == locked.number && named.device == locked.device;
}

GRADUS_IMPL bool flush_file(int file) {
#if defined(__APPLE__)  // fsync leaves it in the disk's own memory
  if (::fcntl(file, F_FULLFSYNC) == 0) return true;
#endif
  return ::fsync(file) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}
GRADUS_IMPL void flush_folder(const path_character* folder) {
  const int opened = ::open(folder, O_RDONLY | O_CLOEXEC);
  if (opened < 0) return;
  ::fsync(opened);
  ::close(opened);
}

GRADUS_IMPL void* map_to_read(int file, std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  return at == MAP_FAILED ? nullptr : at;
}
GRADUS_IMPL void unmap(void* begin, std::size_t bytes) { ::munmap(begin, bytes); }
GRADUS_IMPL void drop_pages(void* begin, std::size_t bytes) { ::madvise(begin, bytes, MADV_DONTNEED); }

// ---- memory in a file -----------------------------------------------------------------------------------------------

GRADUS_IMPL std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
#if defined(__linux__)
GRADUS_IMPL int unnamed_file(const path_character* folder) {
  std::string name = std::string(folder) + "/gradus-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file >= 0) ::unlink(name.c_str());
  return file;
}
GRADUS_IMPL int reserve_bytes(int file, std::uint64_t at, std::size_t bytes) {
  return ::posix_fallocate(file, static_cast<off_t>(at), static_cast<off_t>(bytes));
}
GRADUS_IMPL void free_bytes(int file, std::uint64_t at, std::size_t bytes) {
  ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), static_cast<off_t>(bytes));
}
GRADUS_IMPL void* map_shared(int file, std::uint64_t at, std::size_t bytes) {
  void* const begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(at));
  return begin == MAP_FAILED ? nullptr : begin;
}
GRADUS_IMPL void write_back(int file, std::uint64_t at, std::size_t bytes) {
  ::sync_file_range(file, static_cast<off_t>(at), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
}
GRADUS_IMPL void read_ahead(int file, std::uint64_t at, [[maybe_unused]] void* begin, std::size_t bytes) {
#if defined(MADV_POPULATE_WRITE)
  if (::madvise(begin, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  ::readahead(file, static_cast<off_t>(at), bytes);
}
#else
GRADUS_IMPL int unnamed_file(const path_character*) {
  errno = ENOTSUP;
  return -1;
}
GRADUS_IMPL int reserve_bytes(int, std::uint64_t, std::size_t) { return ENOTSUP; }
GRADUS_IMPL void free_bytes(int, std::uint64_t, std::size_t) {}
GRADUS_IMPL void* map_shared(int, std::uint64_t, std::size_t) { return nullptr; }
GRADUS_IMPL void write_back(int, std::uint64_t, std::size_t) {}
GRADUS_IMPL void read_ahead(int, std::uint64_t, void*, std::size_t) {}
#endif

// ---- numbers --------------------------------------------------------------------------------------------------------

GRADUS_IMPL float plain_strtof(const char* text, char** end) {
  const locale_t plain = ::newlocale(LC_NUMERIC_MASK, "C", nullptr);
  const float value = ::strtof_l(text, end, plain);
  ::freelocale(plain);
  return value;
}
GRADUS_IMPL double plain_strtod(const char* text, char** end) {
  const locale_t plain = ::newlocale(LC_NUMERIC_MASK, "C", nullptr);
  const double value = ::strtod_l(text, end, plain);
  ::freelocale(plain);
  return value;
}

// ---- the machine ----------------------------------------------------------------------------------------------------

GRADUS_IMPL void prefer_huge_pages([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  ::madvise(begin, bytes, MADV_HUGEPAGE);
#endif
}
GRADUS_IMPL int processors_online() {
  const long known = ::sysconf(_SC_NPROCESSORS_ONLN);
  return known < 1 ? 1 : static_cast<int>(known);
}
GRADUS_IMPL int processors_to_run_on() {
#if defined(__linux__)
  for (std::size_t most = 1024; most <= std::size_t{1} << 20;
       most *= 2) {  // the set must hold all processors that the system may have
    cpu_set_t* const usable = CPU_ALLOC(most);
    if (usable == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    const int count = ::sched_getaffinity(0, bytes, usable) == 0 ? CPU_COUNT_S(bytes, usable) : 0;
    CPU_FREE(usable);
    if (count > 0) return count;
  }
  return 1;
#else
  return processors_online();
#endif
}
GRADUS_IMPL std::size_t peak_resident_bytes() {
  struct rusage used {};
  if (::getrusage(RUSAGE_SELF, &used) != 0) return 0;
#if defined(__APPLE__)
  return static_cast<std::size_t>(used.ru_maxrss);
#else
  // ru_maxrss counts the program that started this one, too.
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  std::size_t kib = static_cast<std::size_t>(used.ru_maxrss);
  char line[256];
  while (status != nullptr && std::fgets(line, sizeof line, status) != nullptr)
    if (std::strncmp(line, "VmHWM:", 6) == 0) kib = std::strtoull(line + 6, nullptr, 10);
  if (status != nullptr) std::fclose(status);
  return kib << 10;
#endif
}
GRADUS_IMPL std::size_t free_shared_memory() {
  struct statvfs shared {};
  if (::statvfs("/dev/shm", &shared) != 0) return std::numeric_limits<std::size_t>::max();
  return static_cast<std::size_t>(shared.f_bavail) * shared.f_frsize;
}
GRADUS_IMPL std::size_t stack_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::size_t>::max();
  return static_cast<std::size_t>(limit.rlim_cur);
}
GRADUS_IMPL int process_number() { return static_cast<int>(::getpid()); }
GRADUS_IMPL bool permit_tiles() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long ask = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux 5.16
  return ::syscall(SYS_arch_prctl, ask, tile_data) == 0;
#else
  return false;
#endif
}

// ---- the terminal ---------------------------------------------------------------------------------------------------

GRADUS_IMPL bool is_terminal(int stream) { return ::isatty(stream) == 1; }
GRADUS_IMPL std::size_t terminal_columns() {
  struct winsize size {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}
GRADUS_IMPL void reserve_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (::fcntl(stream, F_GETFD) < 0 && ::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY) < 0) return;
}

}  // namespace gradus::platform
