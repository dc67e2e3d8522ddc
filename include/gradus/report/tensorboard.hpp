#pragma once
// Event files that TensorBoard shows: a TFRecord file of Event messages. Source: tensorflow/core/lib/io/record_writer.h
// and tensorflow/core/util/event.proto, of which only scalars are written.

#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// A named number of a step.
struct event_scalar {
  std::string_view tag;
  double value = 0;
};

/// Writes scalars into a folder, for `tensorboard --logdir FOLDER`. Each writer has a file of its own, so a resumed run
/// adds one.
class tensorboard_writer {
 public:
  /// Begins a file `events.out.tfevents.SECONDS.gradus`, with a number appended if that exists. Unless `first_step` is
  /// 0, TensorBoard drops steps from it on of earlier files in the folder. Throws gradus::error if it cannot be
  /// written.
  explicit tensorboard_writer(const std::filesystem::path& folder, long long first_step = 0);

  /// Writes the numbers of a step. They are in the file when this returns. Throws gradus::error.
  void scalars(long long step, std::initializer_list<event_scalar> all);

  const std::string& path() const { return path_; }

 private:
  struct closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  static std::string begin_event(long long step);
  void write(const std::string& event);
  [[noreturn]] void fail() const;

  std::string path_;
  std::unique_ptr<std::FILE, closer> file_;
  std::int64_t end_ = 0;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "tensorboard.ipp"
#endif
