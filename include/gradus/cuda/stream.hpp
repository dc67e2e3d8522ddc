#pragma once
#include <cuda_runtime_api.h>

#include <string>

#include "../core/device.hpp"
#include "error.hpp"

namespace gradus {

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

/// A sequence of work on one GPU: the one that was current (cudaSetDevice) when the stream was made. Work is submitted in order,
/// runs in order, and runs beside the host and beside other streams; the legacy default stream does not order it.
class cuda_stream {
 public:
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
  /// For calls to CUDA libraries.
  cudaStream_t handle() const { return handle_; }
  /// Number of the GPU, and how many multiprocessors it has.
  int device() const { return device_; }
  int processors() const { return processors_; }

 private:
  cudaStream_t handle_ = nullptr;
  int device_ = 0;
  int processors_ = 1;
};

}  // namespace gradus
