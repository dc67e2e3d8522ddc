#pragma once
// All that gradus asks of the operating system: threads, files, maps, locks, the processors and the terminal. Linux,
// macOS and Windows (by MinGW-w64) each have their definitions in platform_posix.ipp or platform_windows.ipp.

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "config.hpp"

namespace gradus::platform {  // shared by all builds

// ---- threads --------------------------------------------------------------------------------------------------------
// Of POSIX on all systems: <thread> takes long to compile.

/// A thread.
using thread = pthread_t;
inline thread this_thread() { return pthread_self(); }
inline bool is_same(thread a, thread b) { return pthread_equal(a, b) != 0; }
/// Starts a thread that runs body(argument). Returns false if the system creates no more.
inline bool start_thread(thread& made, void* (*body)(void*), void* argument) {
  return pthread_create(&made, nullptr, body, argument) == 0;
}
inline void join_thread(thread t) { pthread_join(t, nullptr); }
/// Tells the processor that the thread polls.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// ---- files ----------------------------------------------------------------------------------------------------------
// A file is a descriptor, as of open(). What fails returns -1, null or false, and sets errno.

/// The characters of std::filesystem::path.
#if defined(_WIN32)
using path_character = wchar_t;
#else
using path_character = char;
#endif

/// How a file is opened. Programs that this one starts do not get it.
enum class file_use {
  read,            ///< to read
  create,          ///< a new file, to read and write; fails with EEXIST if one is there
  create_private,  ///< likewise, and nobody but its owner may open it
  take,            ///< a file that is there, to lock it; does not wait for a pipe's other end
  append,          ///< to read, and to write at its end; made where there is none
};
/// Opens a file. All but `read` fail with ELOOP for a symbolic link: in a folder from elsewhere it may name any file.
int open_file(const path_character* path, file_use use);
void close_file(int file);
/// A stream over an open file, which it closes with itself, or at once if it cannot be made; `mode` as for fopen.
std::FILE* stream_of(int file, const char* mode);
/// fopen.
std::FILE* open_stream(const path_character* path, const char* mode);
/// The file of a stream.
int file_of(std::FILE* stream);
/// Moves a stream to a byte from its beginning.
bool seek(std::FILE* stream, std::int64_t position);

/// A state of a file, and which one it is.
struct file_state {
  bool is_regular;
  std::uint64_t size;
  std::int64_t seconds, nanoseconds;  ///< of its last change
  std::uint64_t device, number;       ///< name the file
  friend bool operator==(const file_state&, const file_state&) = default;
};
bool state_of(int file, file_state& to);
bool state_of(const path_character* path, file_state& to);

/// Reads up to `bytes` bytes from `at` on; several threads may do so. Returns their number, 0 at the end of the file.
std::ptrdiff_t read_at(int file, void* to, std::size_t bytes, std::uint64_t at);
/// Writes bytes at the current position; returns their number.
std::ptrdiff_t write_bytes(int file, const void* from, std::size_t bytes);

/// Locks a file until it is closed, or the process ends. Fails with EWOULDBLOCK while another process, or another open
/// file of this one, has it locked, unless both are shared.
bool lock_file(int file, bool shared = false);
/// Locks a folder likewise, until close_file().
int lock_folder(const path_character* folder);
/// Whether `folder` still is the one that lock_folder() locked: false if it was removed or replaced.
bool holds_folder(int lock, const path_character* folder);

/// Has the disk write what it holds of a file. Pipes and the like, which have no disk, are fine.
bool flush_file(int file);
/// Has the disk write the names in a folder.
void flush_folder(const path_character* folder);

/// Maps the first `bytes` of a file to read them.
void* map_to_read(int file, std::size_t bytes);
void unmap(void* begin, std::size_t bytes);
/// Takes the pages of a map from the process's resident memory; the next use reads them again.
void drop_pages(void* begin, std::size_t bytes);

// ---- memory in a file: Linux only -----------------------------------------------------------------------------------

/// A file without a name in `folder`. Fails with ENOTSUP on other systems.
int unnamed_file(const path_character* folder);
/// Reserves disk space. Returns 0 or the error's number.
int reserve_bytes(int file, std::uint64_t at, std::size_t bytes);
/// Frees disk space.
void free_bytes(int file, std::uint64_t at, std::size_t bytes);
/// Maps a part of a file to read and write it.
void* map_shared(int file, std::uint64_t at, std::size_t bytes);
/// Starts to write changed pages to the disk.
void write_back(int file, std::uint64_t at, std::size_t bytes);
/// Reads pages of a shared map from the disk, and makes them resident where the system can.
void read_ahead(int file, std::uint64_t at, void* begin, std::size_t bytes);
std::size_t page_bytes();

// ---- numbers --------------------------------------------------------------------------------------------------------

/// strtof and strtod, whatever the program's locale is: the decimal point is a point.
float plain_strtof(const char* text, char** end);
double plain_strtod(const char* text, char** end);

// ---- the machine ----------------------------------------------------------------------------------------------------

/// Advises the system to back memory by huge pages.
void prefer_huge_pages(void* begin, std::size_t bytes);
/// Processors that the machine has, and those in the calling thread's affinity mask.
int processors_online();
int processors_to_run_on();
/// The largest resident size of this process so far, in bytes; 0 if the system does not say.
std::size_t peak_resident_bytes();
/// Bytes free in the memory that processes share; the largest size_t if the system does not say.
std::size_t free_shared_memory();
/// The limit of the program's stack in bytes; the largest size_t if there is none.
std::size_t stack_limit();
int process_number();
/// Asks for the use of the processor's tile unit (AMX). Returns false if it is refused.
bool permit_tiles();

// ---- the terminal ---------------------------------------------------------------------------------------------------

/// Whether the standard stream (0 in, 1 out, 2 errors) is a terminal; one to write to then takes escape sequences.
bool is_terminal(int stream);
/// The columns of the terminal that standard output goes to; 0 if that is none, or does not say.
std::size_t terminal_columns();
/// Opens the null device, unwritable, in place of standard streams that are closed (>&-), so that no later file gets
/// what is meant for the screen. On Windows, what is written is then passed on without carriage returns.
void reserve_standard_streams();

}  // namespace gradus::platform

#ifndef GRADUS_COMPILED
#include "platform.ipp"
#endif
