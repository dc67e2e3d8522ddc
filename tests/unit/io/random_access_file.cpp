#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/mapped_file.hpp>
#include <gradus/io/random_access_file.hpp>
#include <gradus/io/text_file.hpp>
#include <iterator>
#include <span>
#include <string>
#include <system_error>

#if !defined(_WIN32)
#include <sys/stat.h>
#include <csignal>

#include <fstream>
#include <thread>
#endif

#include "../../support/scratch_folder.hpp"
#include "../../support/system.hpp"

namespace fs = std::filesystem;

namespace {

std::string bytes_of(const gradus::random_access_file& file, std::size_t at, std::size_t count) {
  std::string text(count, '?');
  file.read(at, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

TEST_CASE("a file is read at any place") {
  const gradus_test::scratch_folder f;
  gradus::write_file_atomically(f.path / "a", "some text");
  const gradus::random_access_file a(f.path / "a");
  CHECK(a.size() == 9);
  CHECK(bytes_of(a, 5, 4) == "text");
  CHECK(bytes_of(a, 0, 9) == "some text");
  CHECK(bytes_of(a, 9, 0).empty());
  CHECK_THROWS_WITH_AS(bytes_of(a, 5, 5), doctest::Contains("a: ends before byte 10"), gradus::error);
  CHECK_THROWS_WITH_AS(bytes_of(a, 10, 0), doctest::Contains("a: ends before byte 10"), gradus::error);
}

TEST_CASE("a file that was cut short, rewritten or touched since it was opened is an error") {
  const gradus_test::scratch_folder f;
  const fs::path path = f.path / "a";
  const auto throws = [&](const auto& change) {
    gradus::write_file_atomically(path, std::string(100000, 'x'));
    const gradus::random_access_file a(path);
    CHECK(bytes_of(a, 90000, 3) == "xxx");
    change();
    CHECK_THROWS_WITH_AS(bytes_of(a, 90000, 3), doctest::Contains("a: has changed since it was opened"), gradus::error);
  };
  throws([&] { fs::resize_file(path, 10); });
  throws([&] { fs::resize_file(path, 0); });
  throws([&] { fs::resize_file(path, 200000); });
  throws([&] { fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1)); });
}

TEST_CASE("a file that lost its name is still read" * doctest::skip(gradus_test::on_windows)) {
  const gradus_test::scratch_folder f;
  gradus::write_file_atomically(f.path / "a", "old");
  const gradus::random_access_file a(f.path / "a");
  CHECK_FALSE(a.replaced());
  gradus::write_file_atomically(f.path / "a", "new");
  CHECK(a.replaced());
  CHECK(bytes_of(a, 0, 3) == "old");
}

TEST_CASE("a file that cannot be opened is named, and why; an empty one has no bytes") {
  const gradus_test::scratch_folder f;
  CHECK_THROWS_WITH_AS(gradus::random_access_file("/nowhere/a"), "/nowhere/a: no such file", gradus::error);
  CHECK_THROWS_WITH_AS(gradus::random_access_file{f.path}, (f.path.string() + ": is a directory; name a file").c_str(),
                       gradus::error);
  gradus::write_file_atomically(f.path / "empty", "");
  CHECK(gradus::random_access_file(f.path / "empty").size() == 0);
}

TEST_CASE("a file that is opened and cannot be read leaves nothing open") {
  const fs::path mem = "/proc/self/mem", descriptors = "/proc/self/fd";
  if (!fs::exists(mem) || !fs::exists(descriptors)) return;
  const auto open = [&] { return std::distance(fs::directory_iterator(descriptors), fs::directory_iterator()); };
  const auto before = open();
  CHECK_THROWS_AS(gradus::random_access_file{mem}, gradus::error);
  CHECK(open() == before);
}

TEST_CASE("a file that has fewer bytes than it reports is not read in part") {
  const fs::path short_file = "/sys/kernel/mm/transparent_hugepage/enabled";
  std::error_code ignored;
  if (fs::file_size(short_file, ignored) != 4096) return;
  const gradus::random_access_file a(short_file);
  CHECK_THROWS_WITH_AS(bytes_of(a, 0, 4096), doctest::Contains("before the size that it reports"), gradus::error);
}

#if !defined(_WIN32)
TEST_CASE("a read that the system refuses is an error with its reason") {
  const gradus_test::scratch_folder f;
  gradus::write_file_atomically(f.path / "a", "some text");
  const gradus::random_access_file a(f.path / "a");
  static constexpr std::byte constant[4]{};  // in memory that cannot be written
  const std::span<std::byte> to(const_cast<std::byte*>(constant), 4);
  CHECK_THROWS_WITH_AS(a.read(0, to), doctest::Contains("a: cannot be read: Bad address"), gradus::error);
}

TEST_CASE("a pipe is read to its end, and then at any place") {
  const gradus_test::scratch_folder f;
  const fs::path pipe = f.path / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(pipe) << std::string(200000, 'x') << "end"; });
  const gradus::random_access_file a(pipe);
  writer.join();
  CHECK(a.size() == 200003);
  CHECK(bytes_of(a, 200000, 3) == "end");
  CHECK_FALSE(a.replaced());
}

TEST_CASE("what may have no end is refused: a device, and a pipe of more than 256 MiB") {
  for (const char* device : {"/dev/zero", "/dev/null", "/dev/urandom"}) {
    if (!fs::exists(device)) continue;
    const std::string message = std::string(device) + ": is a device, which may have no end; name a file";
    CHECK_THROWS_WITH_AS(gradus::random_access_file{device}, message.c_str(), gradus::error);
    CHECK_THROWS_WITH_AS(gradus::mapped_file{device}, message.c_str(), gradus::error);
    CHECK_THROWS_WITH_AS(gradus::read_text(device), message.c_str(), gradus::error);
  }
  const gradus_test::scratch_folder f;
  const fs::path pipe = f.path / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const std::string part(1 << 20, 'x');
  std::thread writer([&] {
    std::ofstream to(pipe);
    for (int i = 0; i <= 256; ++i) to << part;
  });
  CHECK_THROWS_WITH_AS(gradus::random_access_file{pipe}, doctest::Contains("brings more than 256 MiB"), gradus::error);
  writer.join();
  std::signal(SIGPIPE, before);
}

TEST_CASE("a save over what is no file is refused, and leaves it as it is") {
  const gradus_test::scratch_folder f;
  const fs::path pipe = f.path / "pipe", folder = f.path / "folder", link = f.path / "link";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_directory(folder);
  fs::create_symlink("/dev/null", link);
  const auto refused = [&](const fs::path& path, const char* what) {
    CHECK_THROWS_WITH_AS(gradus::write_file_atomically(path, "text"),
                         (path.string() + ": cannot be written: it is " + what + "; name a file").c_str(),
                         gradus::error);
    CHECK_FALSE(fs::exists(path.string() + ".tmp"));
  };
  refused(pipe, "a device, a pipe or the like");
  refused(link, "a device, a pipe or the like");
  refused(folder, "a directory");
  CHECK(fs::is_fifo(pipe));
  CHECK(fs::is_symlink(link));

  gradus::atomic_file late(f.path / "late");
  late.write("text");
  REQUIRE(mkfifo((f.path / "late").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(late.commit(), doctest::Contains("it is a device, a pipe or the like"), gradus::error);
  CHECK(fs::is_fifo(f.path / "late"));
}
#endif
