#pragma once
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <span>

#include "../core/platform.hpp"
#include "../io/crc32c.hpp"
#include "tensorboard.hpp"

namespace gradus {

namespace detail {

// Protocol buffers: a field is its number and wire type, and then a varint, 8 or 4 bytes, or a length and bytes.
GRADUS_IMPL void add_varint(std::string& to, std::uint64_t value) {
  for (; value >= 128; value >>= 7) to += static_cast<char>((value & 127) | 128);
  to += static_cast<char>(value);
}
template <class T>
void add_fixed(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}
GRADUS_IMPL void add_bytes(std::string& to, unsigned field, std::string_view bytes) {
  add_varint(to, field << 3 | 2);
  add_varint(to, bytes.size());
  to.append(bytes);
}
// TFRecord masks its CRCs (rotated, plus a constant): the CRC of data that contains its own CRC is a constant.
GRADUS_IMPL std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c_of(std::as_bytes(std::span(bytes))), 15) + 0xA282EAD8u;
}
// Length, its CRC, the data, their CRC.
GRADUS_IMPL std::string tfrecord(std::string_view data) {
  std::string record;
  add_fixed(record, static_cast<std::uint64_t>(data.size()));
  add_fixed(record, masked_crc32c(record));
  record.append(data);
  add_fixed(record, masked_crc32c(data));
  return record;
}

}  // namespace detail

GRADUS_IMPL tensorboard_writer::tensorboard_writer(const std::filesystem::path& folder, long long first_step) {
  const auto now = static_cast<long long>(std::time(nullptr));
  const std::string name = (folder / ("events.out.tfevents." + std::to_string(now) + ".gradus")).string();
  path_ = name;
  int made = -1;
  for (int again = 2; made < 0; ++again) {
    made = platform::open_file(std::filesystem::path(path_).c_str(), platform::file_use::create);
    if (made < 0 && errno != EEXIST) fail();
    if (made < 0) path_ = name + "." + std::to_string(again);
  }
  file_.reset(platform::stream_of(made, "wb"));
  if (file_ == nullptr) fail();
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
  std::string event = begin_event(0);
  detail::add_bytes(event, 3, "brain.Event:2");  // file_version
  write(event);
  if (first_step <= 0) return;
  // Twice: one of TensorBoard's two readers drops nothing at the first START of a folder.
  event = begin_event(first_step);
  detail::add_bytes(event, 7, std::string_view("\x08\x01", 2));  // session_log: status = START
  for (int i = 0; i < 2; ++i) write(event);
}

GRADUS_IMPL void tensorboard_writer::scalars(long long step, std::initializer_list<event_scalar> all) {
  std::string summary;
  for (const event_scalar& s : all) {
    std::string value;
    detail::add_bytes(value, 1, s.tag);
    detail::add_varint(value, 2 << 3 | 5);  // simple_value
    detail::add_fixed(value, static_cast<float>(s.value));
    detail::add_bytes(summary, 1, value);
  }
  std::string event = begin_event(step);
  detail::add_bytes(event, 5, summary);
  write(event);
}

GRADUS_IMPL std::string tensorboard_writer::begin_event(long long step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  detail::add_varint(event, 1 << 3 | 1);  // wall_time
  detail::add_fixed(event, now.count());
  detail::add_varint(event, 2 << 3 | 0);  // step
  detail::add_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

// A record that a full disk cut off is taken back, for a reader stops at one that is damaged.
GRADUS_IMPL void tensorboard_writer::write(const std::string& event) {
  const std::string record = detail::tfrecord(event);
  errno = 0;
  if (!platform::seek(file_.get(), end_) || std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size())
    fail();
  end_ += static_cast<std::int64_t>(record.size());
}

GRADUS_IMPL void tensorboard_writer::fail() const {
  throw error(path_ + ": cannot be written: " + (errno != 0 ? std::strerror(errno) : "unknown reason"));
}

}  // namespace gradus
