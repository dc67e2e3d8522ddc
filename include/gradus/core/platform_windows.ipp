#pragma once
// Windows, by MinGW-w64 with the threads of POSIX.

#if !defined(WIN32_LEAN_AND_MEAN)
#define WIN32_LEAN_AND_MEAN
#endif
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>
//
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <psapi.h>
#include <share.h>
#include <sys/stat.h>

#undef far  // names that programs give; in windows.h they are empty
#undef near

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>

#include "platform.hpp"

namespace gradus::platform {  // shared by all builds

// ---- files ----------------------------------------------------------------------------------------------------------

// Writes the reason of a failure to errno. Returns false.
GRADUS_IMPL bool failed_by_system() {
  switch (::GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
      errno = ENOENT;
      break;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
      errno = EEXIST;
      break;
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
      errno = EWOULDBLOCK;
      break;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
      errno = ENOSPC;
      break;
    case ERROR_ACCESS_DENIED:
      errno = EACCES;
      break;
    default:
      errno = EIO;
  }
  return false;
}
GRADUS_IMPL HANDLE handle_of(int file) { return reinterpret_cast<HANDLE>(::_get_osfhandle(file)); }
// Where a read, a write or a lock begins.
GRADUS_IMPL OVERLAPPED place_at(std::uint64_t at) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(at);
  place.OffsetHigh = static_cast<DWORD>(at >> 32);
  return place;
}

GRADUS_IMPL int open_file(const path_character* path, file_use use) {
  const bool reads = use == file_use::read;
  const DWORD follow = reads ? 0 : FILE_FLAG_OPEN_REPARSE_POINT;
  const HANDLE opened = ::CreateFileW(path, GENERIC_READ | (reads ? 0 : GENERIC_WRITE),
                                      FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                      use == file_use::create || use == file_use::create_private ? CREATE_NEW
                                      : use == file_use::append                                  ? OPEN_ALWAYS
                                                                                                 : OPEN_EXISTING,
                                      FILE_ATTRIBUTE_NORMAL | follow, nullptr);
  if (opened == INVALID_HANDLE_VALUE) return failed_by_system() ? 0 : -1;
  BY_HANDLE_FILE_INFORMATION found{};
  if (follow != 0 && ::GetFileInformationByHandle(opened, &found) != 0 &&
      (found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0) {
    ::CloseHandle(opened);
    errno = ELOOP;
    return -1;
  }
  const int flags =
      _O_BINARY | _O_NOINHERIT | (reads ? _O_RDONLY : _O_RDWR) | (use == file_use::append ? _O_APPEND : 0);
  return ::_open_osfhandle(reinterpret_cast<std::intptr_t>(opened), flags);
}
GRADUS_IMPL void close_file(int file) { ::_close(file); }
GRADUS_IMPL std::FILE* stream_of(int file, const char* mode) {
  std::FILE* const stream = ::_fdopen(file, mode);
  const int reason = errno;
  if (stream == nullptr) ::_close(file);
  errno = reason;
  return stream;
}
GRADUS_IMPL std::FILE* open_stream(const path_character* path, const char* mode) {
  return ::_wfopen(path, std::wstring(mode, mode + std::char_traits<char>::length(mode)).c_str());
}
GRADUS_IMPL int file_of(std::FILE* stream) { return ::_fileno(stream); }
GRADUS_IMPL bool seek(std::FILE* stream, std::int64_t position) { return ::_fseeki64(stream, position, SEEK_SET) == 0; }

GRADUS_IMPL bool state_of_handle(HANDLE of, file_state& to) {
  BY_HANDLE_FILE_INFORMATION found{};
  if (::GetFileInformationByHandle(of, &found) == 0) return failed_by_system();
  const auto join = [](DWORD high, DWORD low) { return static_cast<std::uint64_t>(high) << 32 | low; };
  const auto ticks = static_cast<std::int64_t>(  // of 100 ns
      join(found.ftLastWriteTime.dwHighDateTime, found.ftLastWriteTime.dwLowDateTime));
  to = {::GetFileType(of) == FILE_TYPE_DISK && (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0,
        join(found.nFileSizeHigh, found.nFileSizeLow),
        ticks / 10'000'000,
        ticks % 10'000'000 * 100,
        found.dwVolumeSerialNumber,
        join(found.nFileIndexHigh, found.nFileIndexLow)};
  return true;
}
GRADUS_IMPL bool state_of(int file, file_state& to) { return state_of_handle(handle_of(file), to); }
GRADUS_IMPL bool state_of(const path_character* path, file_state& to) {
  const HANDLE opened = ::CreateFileW(path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);  // folders, too
  if (opened == INVALID_HANDLE_VALUE) return failed_by_system();
  const bool known = state_of_handle(opened, to);
  ::CloseHandle(opened);
  return known;
}

GRADUS_IMPL std::ptrdiff_t read_at(int file, void* to, std::size_t bytes, std::uint64_t at) {
  OVERLAPPED place = place_at(at);
  DWORD got = 0;
  const auto most = static_cast<DWORD>(std::min(bytes, std::size_t{1} << 30));
  if (::ReadFile(handle_of(file), to, most, &got, &place) != 0) return got;
  if (::GetLastError() == ERROR_HANDLE_EOF) return 0;
  failed_by_system();
  return -1;
}
GRADUS_IMPL std::ptrdiff_t write_bytes(int file, const void* from, std::size_t bytes) {
  return ::_write(file, from, static_cast<unsigned>(std::min(bytes, std::size_t{1} << 30)));
}

// Locks the byte at 2^62, which no file has: a locked byte could not be read.
GRADUS_IMPL bool lock_file(int file, bool shared) {
  OVERLAPPED place = place_at(std::uint64_t{1} << 62);
  const DWORD how = LOCKFILE_FAIL_IMMEDIATELY | (shared ? 0 : LOCKFILE_EXCLUSIVE_LOCK);
  return ::LockFileEx(handle_of(file), how, 0, 1, 0, &place) != 0 || failed_by_system();
}
// By a file in it, which goes with the handle: a folder itself cannot be locked.
GRADUS_IMPL int lock_folder(const path_character* folder) {
  const std::wstring name = std::wstring(folder) + L"/run.lock";
  const HANDLE opened = ::CreateFileW(name.c_str(), GENERIC_READ | GENERIC_WRITE, 0, nullptr, OPEN_ALWAYS,
                                      FILE_ATTRIBUTE_NORMAL | FILE_FLAG_DELETE_ON_CLOSE, nullptr);
  if (opened == INVALID_HANDLE_VALUE) return failed_by_system() ? 0 : -1;
  return ::_open_osfhandle(reinterpret_cast<std::intptr_t>(opened), _O_BINARY | _O_NOINHERIT);
}

GRADUS_IMPL bool holds_folder(int, const path_character*) { return true; }  // the open file keeps it

GRADUS_IMPL bool flush_file(int file) {
  return ::GetFileType(handle_of(file)) != FILE_TYPE_DISK || ::_commit(file) == 0;
}
GRADUS_IMPL void flush_folder(const path_character*) {}  // NTFS logs the names

GRADUS_IMPL void* map_to_read(int file, std::size_t bytes) {
  const HANDLE map = ::CreateFileMappingW(handle_of(file), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (map == nullptr) return nullptr;
  void* const begin = ::MapViewOfFile(map, FILE_MAP_READ, 0, 0, bytes);
  ::CloseHandle(map);  // the view keeps it
  return begin;
}
GRADUS_IMPL void unmap(void* begin, std::size_t) { ::UnmapViewOfFile(begin); }
GRADUS_IMPL void drop_pages(void* begin, std::size_t bytes) { ::VirtualUnlock(begin, bytes); }

// ---- memory in a file -----------------------------------------------------------------------------------------------

GRADUS_IMPL int unnamed_file(const path_character*) {
  errno = ENOTSUP;
  return -1;
}
GRADUS_IMPL int reserve_bytes(int, std::uint64_t, std::size_t) { return ENOTSUP; }
GRADUS_IMPL void free_bytes(int, std::uint64_t, std::size_t) {}
GRADUS_IMPL void* map_shared(int, std::uint64_t, std::size_t) { return nullptr; }
GRADUS_IMPL void write_back(int, std::uint64_t, std::size_t) {}
GRADUS_IMPL void read_ahead(int, std::uint64_t, void*, std::size_t) {}
GRADUS_IMPL std::size_t page_bytes() { return 4096; }

// ---- numbers --------------------------------------------------------------------------------------------------------

// MinGW's strtod asks the program's locale, and msvcrt's knows no "inf".
template <class T>
T plain_number(const char* text, char** end) {
  T value{};
  const auto [last, problem] = std::from_chars(text, text + std::char_traits<char>::length(text), value);
  if (problem == std::errc::result_out_of_range) errno = ERANGE;
  *end = const_cast<char*>(last);
  return value;
}
GRADUS_IMPL float plain_strtof(const char* text, char** end) { return plain_number<float>(text, end); }
GRADUS_IMPL double plain_strtod(const char* text, char** end) { return plain_number<double>(text, end); }

// ---- the machine ----------------------------------------------------------------------------------------------------

GRADUS_IMPL void prefer_huge_pages(void*, std::size_t) {}
GRADUS_IMPL int processors_online() {
  return std::max(1, static_cast<int>(::GetActiveProcessorCount(ALL_PROCESSOR_GROUPS)));
}
GRADUS_IMPL int processors_to_run_on() {
  DWORD_PTR mine = 0, all = 0;
  const bool known = ::GetProcessAffinityMask(::GetCurrentProcess(), &mine, &all) != 0 && mine != 0;
  return known ? std::popcount(static_cast<std::uint64_t>(mine)) : processors_online();
}
GRADUS_IMPL std::size_t peak_resident_bytes() {
  PROCESS_MEMORY_COUNTERS used{};
  return ::K32GetProcessMemoryInfo(::GetCurrentProcess(), &used, sizeof used) != 0 ? used.PeakWorkingSetSize : 0;
}
GRADUS_IMPL std::size_t free_shared_memory() { return std::numeric_limits<std::size_t>::max(); }
GRADUS_IMPL std::size_t stack_limit() { return std::numeric_limits<std::size_t>::max(); }  // the program's own
GRADUS_IMPL int process_number() { return ::_getpid(); }
GRADUS_IMPL bool permit_tiles() { return false; }

// ---- the terminal ---------------------------------------------------------------------------------------------------

GRADUS_IMPL bool is_terminal(int stream) {
  if (::_isatty(stream) == 0) return false;
  DWORD mode = 0;
  const HANDLE console = handle_of(stream);
  return stream == 0 || (::GetConsoleMode(console, &mode) != 0 &&
                         ::SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0);
}
GRADUS_IMPL std::size_t terminal_columns() {
  CONSOLE_SCREEN_BUFFER_INFO known{};
  if (::GetConsoleScreenBufferInfo(::GetStdHandle(STD_OUTPUT_HANDLE), &known) == 0) return 0;
  return static_cast<std::size_t>(known.srWindow.Right - known.srWindow.Left + 1);
}
GRADUS_IMPL void reserve_standard_streams() {
  for (std::FILE* const stream : {stdout, stderr})
    if (const int file = ::_fileno(stream); file >= 0) ::_setmode(file, _O_BINARY);
}

}  // namespace gradus::platform
