#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/mapped_file.hpp>
#include <string>
#include <utility>

#if __has_include(<sys/stat.h>)
#include <sys/stat.h>

#include <thread>
#endif

#include "../../support/scratch_folder.hpp"

namespace fs = std::filesystem;

using folder = gradus_test::scratch_folder;

TEST_CASE("a mapped file has the bytes of the file, also after it was moved") {
  const folder f;
  const std::string text("a\0b\xff", 4);
  gradus::write_file_atomically(f.path / "a", text);
  gradus::write_file_atomically(f.path / "b", "other");
  gradus::mapped_file a(f.path / "a");
  CHECK(a.text() == text);
  const char* const where = a.text().data();
  gradus::mapped_file moved = std::move(a);
  CHECK(moved.text().data() == where);
  moved = gradus::mapped_file(f.path / "b");
  CHECK(moved.text() == "other");
  CHECK(moved.path() == f.path / "b");
}

TEST_CASE("memory of what was looked at is given back, and the bytes are there again when they are looked at") {
  const folder f;
  const std::size_t size = std::size_t{64} << 20;
  gradus::write_file_atomically(f.path / "a", std::string(size, 'x'));
  const gradus::mapped_file a(f.path / "a");
  const auto resident = [] {  // pages of files in the process's memory, in bytes; 0 where nobody says
    std::ifstream in("/proc/self/statm");
    std::size_t all = 0, here = 0, of_files = 0;
    in >> all >> here >> of_files;
    return of_files * 4096;
  };
  CHECK(std::count(a.text().begin(), a.text().end(), 'x') == static_cast<std::ptrdiff_t>(size));
  const std::size_t touched = resident();
  a.release();
  if (touched > size) CHECK(resident() < touched - size / 2);
  CHECK(std::count(a.text().begin(), a.text().end(), 'x') == static_cast<std::ptrdiff_t>(size));
}

TEST_CASE("an empty file has no bytes, and files of /proc, which say they are empty, have theirs") {
  const folder f;
  std::ofstream(f.path / "empty").close();
  CHECK(gradus::mapped_file(f.path / "empty").text().empty());
  if (fs::exists("/proc/self/status")) CHECK_FALSE(gradus::mapped_file("/proc/self/status").text().empty());
}

#if !defined(_WIN32)
TEST_CASE("a pipe is read to its end") {
  const folder f;
  const fs::path pipe = f.path / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string text(200000, 'x');
  std::thread writer([&] { std::ofstream(pipe) << text; });
  CHECK(gradus::mapped_file(pipe).text() == text);
  writer.join();
}
#endif

TEST_CASE("a file that cannot be mapped is named, and why") {
  const folder f;
  CHECK_THROWS_WITH_AS(gradus::mapped_file("/nowhere/a"), "/nowhere/a: no such file", gradus::error);
  CHECK_THROWS_WITH_AS(gradus::mapped_file(f.path), (f.path.string() + ": is a directory; name a file").c_str(),
                       gradus::error);
}

TEST_CASE("what was written to an atomic file may be overwritten before it is committed") {
  const folder f;
  gradus::atomic_file file(f.path / "a");
  file.write("header text");
  file.overwrite(2, "AD", 2);
  file.write(" end");
  file.commit();
  CHECK(gradus::mapped_file(f.path / "a").text() == "heADer text end");
}
