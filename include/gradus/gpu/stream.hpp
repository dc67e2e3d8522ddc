#pragma once
// Streams and events of CUDA.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "../core/device.hpp"
#include "../memory/stream.hpp"
#include "device.hpp"
#include "error.hpp"

namespace gradus {

namespace cuda_kit {
class followed_values;
}

/// An event of a cuda_stream; see event_stream. Creates its GPU event at the first record and reuses it. An event of a
/// captured stream belongs to the graph: it is done after the capture, behind all work submitted to its stream.
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

  /// True if the work before the event has run. Throws the error of a failed kernel.
  bool done() const {
    if (recorded_on_ == nullptr) return true;
    if (!settled()) return false;
    const cudaError_t status = relaxed([&] { return cudaEventQuery(handle_); });
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // not an error: no later call should report it
      return false;
    }
    cuda_kit::check(status, "cudaEventQuery");
    return true;
  }
  /// Returns when that work has run. Throws the error of a failed kernel, and error during the event's own capture.
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
  // Creates the GPU event, unless it exists on that GPU.
  cudaError_t make_on(cuda_device device) noexcept {
    if (handle_ != nullptr && made_on_ == device) return cudaSuccess;
    if (handle_ != nullptr) static_cast<void>(cudaEventDestroy(std::exchange(handle_, nullptr)));
    made_on_ = device;
    const cuda_kit::device_guard guard(device);
    return cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming);
  }
  // The capture in which a stream is; 0: none.
  static unsigned long long capture_of(cudaStream_t stream) noexcept {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    if (cudaStreamGetCaptureInfo(stream, &status, &id) != cudaSuccess) static_cast<void>(cudaGetLastError());
    if (status == cudaStreamCaptureStatusInvalidated) return lost_capture;
    return status == cudaStreamCaptureStatusNone ? 0 : id;
  }
  // Whether the GPU can be queried, which would invalidate a running capture. Records an ended capture's event again.
  bool settled() const {
    if (capture_ == 0) return true;
    if (capture_of(recorded_on_) != 0) return false;
    cuda_kit::check(cudaEventRecord(handle_, recorded_on_), "cudaEventRecord");
    capture_ = 0;
    return true;
  }
  // Calls f, which is unrelated to any capture, while this thread's captures permit it.
  template <class F>
  static cudaError_t relaxed(const F& f) {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cuda_kit::check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
    const cudaError_t status = f();
    cuda_kit::check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
    return status;
  }

  static constexpr unsigned long long lost_capture = ~0ull;  // a capture without a known id

  cudaEvent_t handle_ = nullptr;
  cuda_device made_on_;
  cudaStream_t recorded_on_ = nullptr;      // null: not recorded
  mutable unsigned long long capture_ = 0;  // that contains the event; 0: none
};

/// A sequence of work on one GPU, which runs in submission order, asynchronously to the host and to other streams; the
/// legacy default stream does not synchronize with it. Any thread may submit work, whatever its current GPU.
class cuda_stream {
 public:
  using event = cuda_event;
  static constexpr std::size_t alignment = cuda::alignment;

  /// A stream on the calling thread's current GPU. Throws error if there is no GPU.
  cuda_stream() : cuda_stream(cuda_device::current()) {}
  /// A stream on this GPU. Throws error if it does not exist.
  explicit cuda_stream(cuda_device on) : device_(on) {
    cuda_kit::check_available(on, "cuda_stream");
    const cuda_kit::device_guard guard(device_);
    ask_device();
    cuda_kit::check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  /// The stream of another library or of your own code, which must outlive the result: work of both runs in submission
  /// order. The destructor waits for the stream and does not destroy it. Throws error for the default streams (0,
  /// cudaStreamLegacy, cudaStreamPerThread), which depend on the current GPU or thread and cannot be captured. Before
  /// CUDA 12.8 the stream must be on the current GPU.
  static cuda_stream borrow(cudaStream_t stream) { return cuda_stream(stream); }
  cuda_stream(int) = delete;  // a device number or a handle is not a stream
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;
  /// Waits for the submitted work, so that its memory may be freed.
  ~cuda_stream() {
    static_cast<void>(cudaStreamSynchronize(handle_));
    if (!borrowed_) static_cast<void>(cudaStreamDestroy(handle_));
  }

  /// Returns when all submitted work is done. Throws the error of a failed kernel.
  void synchronize() const { cuda_kit::check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }
  /// Records the event after the work submitted so far. If CUDA cannot create an event, the host waits for the stream.
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
  /// Makes later work of this stream wait for an event; the host waits instead if only this stream is captured.
  void wait(const event& mark) {
    if (mark.recorded_on_ == nullptr || mark.recorded_on_ == handle_) return;
    const unsigned long long capture = event::capture_of(handle_);
    if (mark.settled()) {
      if (capture != 0) return mark.synchronize();
    } else if (const auto current = event::capture_of(mark.recorded_on_); current != mark.capture_) {
      if (capture == current) return;  // both streams are in a graph that is launched after the mark's
      throw error(
          "cuda_stream: wait() for an event of an earlier captured step while its stream captures another; wait "
          "between "
          "the steps");
    }
    cuda_kit::check(cudaStreamWaitEvent(handle_, mark.handle_, 0), "cudaStreamWaitEvent");
  }
  /// True if the environment had GRADUS_CUDA_SYNC=1 when the stream was created, outside of a capture: the host waits
  /// for each kernel of the library, and of launch(), and the error of one that fails names it and its operation.
  bool waits_for_kernels() const { return waits_ && !captures(); }
  /// The CUDA handle, for other libraries.
  cudaStream_t handle() const { return handle_; }
  /// The GPU, its number of multiprocessors, the shared memory that a block may have, and the second-level cache.
  cuda_device device() const { return device_; }
  int processors() const { return processors_; }
  std::size_t block_memory() const { return block_memory_; }
  std::size_t cache_bytes() const { return cache_bytes_; }
  /// True while work that is submitted becomes part of a graph.
  bool captures() const { return event::capture_of(handle_) != 0; }

  /// The values that kernels look up at each launch of the graph being captured; null unless it will be replayed.
  cuda_kit::followed_values* followed() const { return followed_; }
  void follow(cuda_kit::followed_values* values) { followed_ = values; }
  /// How often memory moved that kernels get as an argument and no tensor owns.
  std::size_t moves() const { return moves_; }
  void note_move() { ++moves_; }

 private:
  explicit cuda_stream(cudaStream_t borrowed) : handle_(borrowed), device_(cuda_device::current()), borrowed_(true) {
    if (borrowed == nullptr || borrowed == cudaStreamLegacy || borrowed == cudaStreamPerThread)
      throw error("cuda_stream::borrow(stream): the default stream cannot be borrowed; create one by cudaStreamCreate");
#if CUDART_VERSION >= 12080
    cuda_kit::check(cudaStreamGetDevice(borrowed, &device_.number), "cuda_stream::borrow: cudaStreamGetDevice");
#endif
    cuda_kit::check_available(device_, "cuda_stream::borrow");
    ask_device();
  }
  static bool asked_to_wait() {
    const char* const set = std::getenv("GRADUS_CUDA_SYNC");  // NOLINT(concurrency-mt-unsafe): nothing here changes it
    return set != nullptr && std::string_view(set) == "1";
  }
  void ask_device() {
    processors_ = cuda_kit::attribute(cudaDevAttrMultiProcessorCount, device_);
    block_memory_ = static_cast<std::size_t>(cuda_kit::attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device_));
    cache_bytes_ = static_cast<std::size_t>(cuda_kit::attribute(cudaDevAttrL2CacheSize, device_));
  }

  cuda_kit::followed_values* followed_ = nullptr;
  std::size_t moves_ = 0;
  cudaStream_t handle_ = nullptr;
  cuda_device device_;
  int processors_ = 1;
  std::size_t block_memory_ = 0, cache_bytes_ = 0;
  bool borrowed_ = false;
  bool waits_ = asked_to_wait();
};

static_assert(event_stream<cuda_stream>);

}  // namespace gradus
