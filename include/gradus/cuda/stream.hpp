#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "../core/device.hpp"
#include "../memory/stream.hpp"
#include "error.hpp"

namespace gradus {

namespace cuda_kit {
class followed_values;
}

/// Why no GPU can be used here, or an empty string when one can.
inline std::string cuda_unavailable_reason() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return std::string(cudaGetErrorString(status)) + cuda_kit::advice(status);
  }
  return devices == 0 ? "there is no NVIDIA GPU here" : "";
}
/// True when a cuda_stream can be made.
inline bool cuda_available() { return cuda_unavailable_reason().empty(); }

/// A mark in a cuda_stream; see event_stream. What it is made of comes at the first record and is used again by later ones.
class cuda_event {
 public:
  cuda_event() = default;
  cuda_event(cuda_event&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), recorded_on_(std::exchange(other.recorded_on_, nullptr)) {}
  cuda_event& operator=(cuda_event&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(recorded_on_, other.recorded_on_);
    return *this;
  }
  ~cuda_event() {
    if (handle_ != nullptr) static_cast<void>(cudaEventDestroy(handle_));
  }

  /// True when the work before the mark has run. Throws the error of a kernel that failed.
  bool done() const {
    if (recorded_on_ == nullptr) return true;
    const cudaError_t status = state();
    if (status == cudaErrorNotReady) return false;
    cuda_kit::check(status, "cudaEventQuery");
    return true;
  }
  /// Returns when that work has run. Throws the error of a kernel that failed.
  void synchronize() const {
    if (recorded_on_ == nullptr) return;
    static_cast<void>(state());
    cuda_kit::check(cudaEventSynchronize(handle_), "cudaEventSynchronize");
  }

 private:
  friend cuda_stream;

  // What the GPU says of the mark. One that was made while its stream was captured is a point of that graph, and nothing may be asked of it:
  // when the capture has ended, it is made anew, behind all that its stream has.
  cudaError_t state() const {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // a question does not disturb a capture by this thread
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
    cudaError_t status = cudaEventQuery(handle_);
    if (status == cudaErrorCapturedEvent) {
      cudaStreamCaptureStatus capture = cudaStreamCaptureStatusActive;
      status = cudaErrorNotReady;
      if (cudaStreamIsCapturing(recorded_on_, &capture) == cudaSuccess && capture == cudaStreamCaptureStatusNone &&
          cudaEventRecord(handle_, recorded_on_) == cudaSuccess)
        status = cudaEventQuery(handle_);
    }
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
    if (status != cudaSuccess) static_cast<void>(cudaGetLastError());  // an answer, which no later launch should report
    return status;
  }

  cudaEvent_t handle_ = nullptr;
  cudaStream_t recorded_on_ = nullptr;  // null: not recorded
};

/// A sequence of work on one GPU: the one that was current (cudaSetDevice) when the stream was made. Work is submitted in order,
/// runs in order, and runs beside the host and beside other streams; the legacy default stream does not order it.
class cuda_stream {
 public:
  using event = cuda_event;
  static constexpr std::size_t alignment = 256;  ///< what CUDA libraries want for their fastest kernels

  /// Throws error when there is no GPU.
  cuda_stream() {
    const std::string reason = cuda_unavailable_reason();
    if (!reason.empty()) throw error("cuda_stream: " + reason);
    cuda_kit::check(cudaGetDevice(&device_), "cudaGetDevice");
    cuda_kit::check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device_),
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
  /// Puts the mark after the work submitted so far. Should the GPU refuse an event, the host waits for the stream instead.
  void record(event& mark) noexcept {
    const bool recorded =
        (mark.handle_ != nullptr || cudaEventCreateWithFlags(&mark.handle_, cudaEventDisableTiming) == cudaSuccess) &&
        cudaEventRecord(mark.handle_, handle_) == cudaSuccess;
    mark.recorded_on_ = recorded ? handle_ : nullptr;
    if (!recorded) {
      static_cast<void>(cudaStreamSynchronize(handle_));
      static_cast<void>(cudaGetLastError());
    }
  }
  /// Later work of this stream runs after the mark, which is another stream's; the host goes on.
  void wait(const event& mark) {
    if (mark.recorded_on_ == nullptr) return;
    static_cast<void>(mark.state());
    cuda_kit::check(cudaStreamWaitEvent(handle_, mark.handle_, 0), "cudaStreamWaitEvent");
  }
  /// For calls to CUDA libraries.
  cudaStream_t handle() const { return handle_; }
  /// Number of the GPU, and how many multiprocessors it has.
  int device() const { return device_; }
  int processors() const { return processors_; }

  /// What kernels are to look up at each launch of the graph that is being captured; null where there is none that is launched again.
  cuda_kit::followed_values* followed() const { return followed_; }
  void follow(cuda_kit::followed_values* values) { followed_ = values; }
  /// How often memory was moved that kernels are launched with and that no tensor has.
  std::size_t moves() const { return moves_; }
  void note_move() { ++moves_; }

 private:
  cuda_kit::followed_values* followed_ = nullptr;
  std::size_t moves_ = 0;
  cudaStream_t handle_ = nullptr;
  int device_ = 0;
  int processors_ = 1;
};

static_assert(event_stream<cuda_stream>);

}  // namespace gradus
