#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "../core/device.hpp"
#include "../memory/stream.hpp"
#include "device.hpp"
#include "error.hpp"

namespace gradus {

namespace cuda_kit {
class followed_values;
}

/// A mark in a cuda_stream; see event_stream. Its GPU event comes at the first record and is reused by later ones. A
/// mark that was recorded while its stream was captured is a point of that graph: it is not done before the capture has
/// ended, and then it is behind all work that its stream has.
class cuda_event {
 public:
  cuda_event() = default;
  cuda_event(cuda_event&& other) noexcept { swap(other); }
  cuda_event& operator=(cuda_event&& other) noexcept {
    swap(other);
    return *this;
  }
  ~cuda_event() {
    if (handle_ != nullptr) static_cast<void>(cudaEventDestroy(handle_));
  }

  /// True when the work before the mark has run. Throws the error of a kernel that failed.
  bool done() const {
    if (recorded_on_ == nullptr) return true;
    if (!settled()) return false;
    const cudaError_t status = relaxed([&] { return cudaEventQuery(handle_); });
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // an answer, which no later call should report
      return false;
    }
    cuda_kit::check(status, "cudaEventQuery");
    return true;
  }
  /// Returns when that work has run. Throws the error of a kernel that failed, and error while the capture lasts that
  /// the mark is in.
  void synchronize() const {
    if (recorded_on_ == nullptr) return;
    if (!settled())
      throw error("cuda_event: synchronize() within the captured step that recorded it; call it after the step");
    cuda_kit::check(relaxed([&] { return cudaEventSynchronize(handle_); }), "cudaEventSynchronize");
  }

 private:
  friend cuda_stream;

  void swap(cuda_event& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(made_on_, other.made_on_);
    std::swap(recorded_on_, other.recorded_on_);
    std::swap(capture_, other.capture_);
  }
  // Makes the GPU's event, unless there is one of that GPU.
  cudaError_t make_on(cuda_device device) noexcept {
    if (handle_ != nullptr && made_on_ == device) return cudaSuccess;
    if (handle_ != nullptr) static_cast<void>(cudaEventDestroy(std::exchange(handle_, nullptr)));
    made_on_ = device;
    const cuda_kit::device_guard guard(device);
    return cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming);
  }
  // The capture that a stream is part of; 0: none.
  static unsigned long long capture_of(cudaStream_t stream) noexcept {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    if (cudaStreamGetCaptureInfo(stream, &status, &id) != cudaSuccess) static_cast<void>(cudaGetLastError());
    if (status == cudaStreamCaptureStatusInvalidated) return lost_capture;
    return status == cudaStreamCaptureStatusNone ? 0 : id;
  }
  // Whether the GPU may be asked about the mark. To ask about one of a running capture would invalidate the capture.
  // One of a capture that has ended is recorded anew.
  bool settled() const {
    if (capture_ == 0) return true;
    if (capture_of(recorded_on_) != 0) return false;
    cuda_kit::check(cudaEventRecord(handle_, recorded_on_), "cudaEventRecord");
    capture_ = 0;
    return true;
  }
  // Calls f, which concerns no capture, where captures by this thread do not forbid it.
  template <class F>
  static cudaError_t relaxed(const F& f) {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cuda_kit::check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
    const cudaError_t status = f();
    cuda_kit::check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
    return status;
  }

  static constexpr unsigned long long lost_capture = ~0ull;  // no id is known of one

  cudaEvent_t handle_ = nullptr;
  cuda_device made_on_;
  cudaStream_t recorded_on_ = nullptr;      // null: not recorded
  mutable unsigned long long capture_ = 0;  // that the mark is a point of; 0: none
};

/// A sequence of work on one GPU. Work is submitted in order, runs in order, and runs beside the host and beside other
/// streams; the legacy default stream does not order it. Any thread may submit work, whichever GPU is current in it.
class cuda_stream {
 public:
  using event = cuda_event;
  static constexpr std::size_t alignment = cuda::alignment;

  /// On the GPU that is current in the calling thread. Throws error when there is no GPU.
  cuda_stream() : cuda_stream(cuda_device::current()) {}
  /// On this GPU. Throws error where it is not there.
  explicit cuda_stream(cuda_device on) : device_(on) {
    cuda_kit::check_available(on, "cuda_stream");
    const cuda_kit::device_guard guard(device_);
    cuda_kit::check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device_.number),
                    "cudaDeviceGetAttribute");
    cuda_kit::check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  cuda_stream(int) = delete;  // a device number or a handle is not a stream
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;
  /// Waits for the work submitted, so that what it uses may go after it.
  ~cuda_stream() {
    static_cast<void>(cudaStreamSynchronize(handle_));
    static_cast<void>(cudaStreamDestroy(handle_));
  }

  /// Returns when all submitted work is done. Throws the error of a kernel that failed.
  void synchronize() const { cuda_kit::check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }
  /// Puts the mark after the work submitted so far. Should the GPU refuse an event, the host waits for the stream
  /// instead.
  void record(event& mark) noexcept {
    cudaError_t status = mark.make_on(device_);
    if (status == cudaSuccess) status = cudaEventRecord(mark.handle_, handle_);
    if (status == cudaSuccess) {
      mark.recorded_on_ = handle_;
      mark.capture_ = event::capture_of(handle_);
      return;
    }
    static_cast<void>(cudaGetLastError());
    mark.recorded_on_ = nullptr;
    if (cudaStreamSynchronize(handle_) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
  /// Later work of this stream runs after the mark, which is another stream's; the host goes on. A stream that is
  /// captured cannot wait for what is not: there the host waits before it goes on.
  void wait(const event& mark) {
    if (mark.recorded_on_ == nullptr || mark.recorded_on_ == handle_) return;
    const unsigned long long capture = event::capture_of(handle_);
    if (mark.settled()) {
      if (capture != 0) return mark.synchronize();
    } else if (const auto current = event::capture_of(mark.recorded_on_); current != mark.capture_) {
      if (capture == current) return;  // both streams are in a graph that is launched after the mark's
      throw error(
          "cuda_stream: wait() for a mark of an earlier captured step while its stream captures another; wait between "
          "the steps");
    }
    cuda_kit::check(cudaStreamWaitEvent(handle_, mark.handle_, 0), "cudaStreamWaitEvent");
  }
  /// For calls to CUDA libraries.
  cudaStream_t handle() const { return handle_; }
  /// The GPU, and how many multiprocessors it has.
  cuda_device device() const { return device_; }
  int processors() const { return processors_; }

  /// What kernels are to look up at each launch of the graph that is being captured; null where there is none that is
  /// launched again.
  cuda_kit::followed_values* followed() const { return followed_; }
  void follow(cuda_kit::followed_values* values) { followed_ = values; }
  /// How often memory was moved that kernels are launched with and that no tensor has.
  std::size_t moves() const { return moves_; }
  void note_move() { ++moves_; }

 private:
  cuda_kit::followed_values* followed_ = nullptr;
  std::size_t moves_ = 0;
  cudaStream_t handle_ = nullptr;
  cuda_device device_;
  int processors_ = 1;
};

static_assert(event_stream<cuda_stream>);

}  // namespace gradus
