// Memory in a mapped file, which needs Linux.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <gradus/memory/buffer.hpp>
#include <gradus/memory/file_resource.hpp>
#include <gradus/memory/stats_resource.hpp>
#include <string>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/scratch_folder.hpp"
#include "../../support/system.hpp"

using namespace gradus;
using gradus_test::message_of;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// Resident bytes of this process that belong to files.
std::size_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "RssFile:") {
      std::size_t kib = 0;
      status >> kib;
      return kib * 1024;
    }
  return 0;
}

struct place {
  gradus_test::scratch_folder folder;
  stream s;
  file_resource file{folder.path};
  context<cpu> ctx{s, file};
  std::vector<std::uint8_t> values(std::size_t n) {
    std::vector<std::uint8_t> all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<std::uint8_t>(random_byte(i));
    return all;
  }
  static std::size_t random_byte(std::size_t i) { return (i * 2654435761u) >> 13; }
};

}  // namespace

TEST_CASE("blocks in a file are zero at first, keep what is written, and leave nothing in the folder" *
          doctest::skip(gradus_test::on_windows)) {
  place p;
  CHECK(std::filesystem::is_empty(p.folder.path));
  {
    const buffer<cpu> first(p.ctx, 100, category::parameter), second(p.ctx, 3 * mebibyte + 1, category::parameter);
    CHECK(p.file.bytes() >= 3 * mebibyte + 101);
    auto* const bytes = static_cast<std::uint8_t*>(second.data());
    bool zero = true;
    for (std::size_t i = 0; i < second.bytes(); ++i) zero = zero && bytes[i] == 0;
    CHECK(zero);
    const auto wanted = p.values(second.bytes());
    std::copy(wanted.begin(), wanted.end(), bytes);
    p.file.write_back(bytes, second.bytes());
    p.file.drop(bytes, second.bytes());
    CHECK(std::equal(wanted.begin(), wanted.end(), bytes));
    p.file.drop(bytes + 5000, 10);
    CHECK(std::equal(wanted.begin(), wanted.end(), bytes));
    CHECK(static_cast<const std::uint8_t*>(first.data())[99] == 0);
  }
  CHECK(p.file.bytes() == 0);
  const buffer<cpu> again(p.ctx, mebibyte, category::parameter);
  CHECK(static_cast<const std::uint8_t*>(again.data())[mebibyte - 1] == 0);
}

TEST_CASE("dropped pages are not resident" * doctest::skip(gradus_test::on_windows)) {
  place p;
  const buffer<cpu> block(p.ctx, 32 * mebibyte, category::optimizer_state);
  auto* const bytes = static_cast<std::uint8_t*>(block.data());
  const std::size_t before = resident_file_bytes();
  for (std::size_t i = 0; i < block.bytes(); i += 1024) bytes[i] = 1;
  CHECK(resident_file_bytes() >= before + 31 * mebibyte);
  p.file.drop(bytes, 24 * mebibyte);
  CHECK(resident_file_bytes() <= before + 9 * mebibyte);
  p.file.finish(p.file.read_ahead(bytes, 12 * mebibyte));
  CHECK(resident_file_bytes() <= before + 21 * mebibyte);
  const buffer<cpu> next(p.ctx, mebibyte, category::optimizer_state);
  CHECK(resident_file_bytes() <= before + 4 * mebibyte);
  CHECK(p.file.read_ahead(&p, 1) == 0);
  CHECK(bytes[0] + bytes[1] + bytes[24 * mebibyte - 1024] == 2);
}

TEST_CASE("copies out of the file have what was written last, in the order in which they were started" *
          doctest::skip(gradus_test::on_windows)) {
  place p;
  const buffer<cpu> block(p.ctx, mebibyte, category::parameter);
  auto* const bytes = static_cast<std::uint8_t*>(block.data());
  const auto values = p.values(mebibyte);
  std::vector<std::uint8_t> first(1000), all(mebibyte);
  std::copy(values.begin(), values.end(), bytes);
  static_cast<void>(p.file.start_copy(bytes + 12345, first.data(), first.size()));
  p.file.finish(p.file.start_copy(bytes, all.data(), all.size()));
  CHECK(all == values);
  CHECK(std::equal(first.begin(), first.end(), values.begin() + 12345));
  CHECK(message_of([&] { static_cast<void>(p.file.start_copy(all.data(), bytes, 8)); }) ==
        "file_resource.start_copy: the bytes are not in a block of the file");
  CHECK(message_of([&] { static_cast<void>(p.file.start_copy(bytes + 8, all.data(), mebibyte)); }) ==
        "file_resource.start_copy: the bytes are not in a block of the file");
}

TEST_CASE("a disk that is too small and a folder that does not exist are one clear line" *
          doctest::skip(gradus_test::on_windows)) {
  place p;
  const std::string message =
      message_of([&] { const buffer<cpu> huge(p.ctx, std::size_t{1} << 60, category::optimizer_state); });
  CHECK(message.find(p.folder.path.string() + ": no room on the disk for ") == 0);
  CHECK(message.find("of optimizer state, beside 0 bytes") != message.npos);
  CHECK(p.file.bytes() == 0);
  const auto missing = p.folder.path / "missing";
  CHECK(message_of([&] { const file_resource none(missing); }) ==
        missing.string() + ": no file for parameters and states can be made here: No such file or directory");
}
