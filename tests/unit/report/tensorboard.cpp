// Event files, read back by a reader of TFRecord and of protocol buffers that is written here from their descriptions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gradus/report/tensorboard.hpp>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;

struct scalar_event {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string version, session;
  std::map<std::string, float> scalars;
};

template <class T>
T take(std::string_view& from) {
  REQUIRE(from.size() >= sizeof(T));
  T value;
  std::memcpy(&value, from.data(), sizeof value);
  from.remove_prefix(sizeof value);
  return value;
}
std::uint64_t take_varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<std::uint64_t>(take<unsigned char>(from));
    value |= (byte & 127u) << shift;
    if (byte < 128) return value;
  }
}
std::string_view take_bytes(std::string_view& from) {
  const std::uint64_t size = take_varint(from);
  REQUIRE(from.size() >= size);
  const std::string_view bytes = from.substr(0, size);
  from.remove_prefix(size);
  return bytes;
}

// Bit by bit, and masked as TFRecord has it.
std::uint32_t plain_masked_crc(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

scalar_event read_event(std::string_view message) {
  scalar_event e;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message);
    if (key == (1 << 3 | 1)) e.wall_time = take<double>(message);
    else if (key == (2 << 3 | 0)) e.step = take_varint(message);
    else if (key == (3 << 3 | 2)) e.version = take_bytes(message);
    else if (key == (7 << 3 | 2)) e.session = take_bytes(message);
    else {
      REQUIRE(key == (5 << 3 | 2));
      for (std::string_view summary = take_bytes(message); !summary.empty();) {
        REQUIRE(take_varint(summary) == (1 << 3 | 2));
        std::string_view value = take_bytes(summary);
        REQUIRE(take_varint(value) == (1 << 3 | 2));
        const std::string tag(take_bytes(value));
        REQUIRE(take_varint(value) == (2 << 3 | 5));
        e.scalars[tag] = take<float>(value);
        CHECK(value.empty());
      }
    }
  }
  return e;
}

std::vector<scalar_event> read_events(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<scalar_event> events;
  for (std::string_view left = bytes; !left.empty();) {
    const std::string_view length_bytes = left.substr(0, 8);
    const auto length = take<std::uint64_t>(left);
    CHECK(take<std::uint32_t>(left) == plain_masked_crc(length_bytes));
    REQUIRE(left.size() >= length + 4);
    const std::string_view data = left.substr(0, length);
    left.remove_prefix(length);
    CHECK(take<std::uint32_t>(left) == plain_masked_crc(data));
    events.push_back(read_event(data));
  }
  return events;
}

}  // namespace

TEST_CASE("an event file holds the version and then the numbers of each step") {
  const gradus_test::scratch_folder folder;
  gradus::tensorboard_writer writer(folder.path);
  CHECK(fs::path(writer.path()).filename().string().starts_with("events.out.tfevents."));
  writer.scalars(1, {{"loss/train", 5.5}});
  writer.scalars(300, {{"loss/train", 2.25}, {"loss/validation", 3}, {"learning rate", 1e-3}});
  writer.scalars(1LL << 40, {{"loss/train", std::nan("")}});
  const auto events = read_events(writer.path());  // nothing waits in a buffer
  REQUIRE(events.size() == 4);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].wall_time > 1.6e9);
  CHECK(events[1].step == 1);
  CHECK(events[1].scalars == std::map<std::string, float>{{"loss/train", 5.5f}});
  CHECK(events[2].step == 300);
  CHECK(events[2].scalars ==
        std::map<std::string, float>{{"loss/train", 2.25f}, {"loss/validation", 3}, {"learning rate", 1e-3f}});
  CHECK(events[3].step == 1ULL << 40);
  CHECK(std::isnan(events[3].scalars.at("loss/train")));
}

TEST_CASE("a resumed run adds an event file that takes the place of what came later") {
  const gradus_test::scratch_folder folder;
  const gradus::tensorboard_writer first(folder.path);
  gradus::tensorboard_writer second(folder.path, 41);
  CHECK(first.path() != second.path());
  second.scalars(41, {{"loss/train", 1}});
  const auto events = read_events(second.path());
  REQUIRE(events.size() == 4);
  // A restart is the second START for the reader of `tensorboard --load_fast=false`, and each one for the other reader.
  for (const int i : {1, 2}) {
    CHECK(events[i].session == std::string("\x08\x01"));
    CHECK(events[i].step == 41);
  }
  CHECK(events[3].scalars.size() == 1);
  const auto of_first = read_events(first.path());
  CHECK(std::ranges::all_of(of_first, [](const scalar_event& e) { return e.session.empty(); }));
  CHECK(gradus_test::message_of([&] { gradus::tensorboard_writer(folder.path / "none"); }).find("cannot be written") !=
        std::string::npos);
}
