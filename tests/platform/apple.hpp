#pragma once
// A stand-in for macOS, to be included before all else by clang++ -stdlib=libc++ on Linux: what only Linux has is an
// error, and what only macOS has is there.

// The headers of C++ and POSIX themselves are Linux's.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <any>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <clocale>
#include <cmath>
#include <complex>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <ranges>
#include <set>
#include <source_location>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>
#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>
#endif

#undef __linux__
#undef __gnu_linux__
#undef linux
#define __APPLE__ 1

#undef CPU_ALLOC
#undef CPU_COUNT_S
#undef MADV_HUGEPAGE
#undef MADV_POPULATE_READ
#undef MADV_POPULATE_WRITE
#undef O_TMPFILE
#undef SYNC_FILE_RANGE_WRITE
#pragma GCC poison copy_file_range epoll_create eventfd fallocate getrandom mallinfo2 malloc_trim memfd_create
#pragma GCC poison mkostemp mremap pipe2 posix_fallocate prctl pthread_getattr_default_np readahead sched_getaffinity
#pragma GCC poison secure_getenv sync_file_range syscall

#define F_FULLFSYNC  51
#define st_mtimespec st_mtim
