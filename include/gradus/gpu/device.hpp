#pragma once
// GPUs by number, and whether one is usable.

#include <cuda_runtime_api.h>

#include <string>

#include "../core/error.hpp"
#include "error.hpp"

namespace gradus {

/// A GPU by its number among those visible to the program: 0, 1, ...
struct cuda_device {
  int number = 0;
  friend bool operator==(cuda_device, cuda_device) = default;

  /// The calling thread's current GPU: 0, or the one given to cudaSetDevice.
  static cuda_device current() noexcept {
    cuda_device found;
    if (cudaGetDevice(&found.number) != cudaSuccess) static_cast<void>(cudaGetLastError());
    return found;
  }
  /// The number of GPUs; 0 if none is usable.
  static int count() noexcept {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) == cudaSuccess) return devices;
    static_cast<void>(cudaGetLastError());
    return 0;
  }
};

namespace cuda_kit {

/// A number that the driver knows of a GPU.
inline int attribute(cudaDeviceAttr which, cuda_device of) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, of.number), "cudaDeviceGetAttribute");
  return value;
}
/// "NVIDIA A100-SXM4-80GB", or its number if the driver does not say.
inline std::string name_of(cuda_device device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device.number) == cudaSuccess) return properties.name;
  static_cast<void>(cudaGetLastError());
  return "GPU " + std::to_string(device.number);
}

/// Why the kernels cannot run on a GPU of this compute capability; empty if they can.
inline std::string too_old(int major, int minor, const std::string& name) {
  if (major >= 8) return "";
  return "the " + name + " has compute capability " + std::to_string(major) + "." + std::to_string(minor) +
         ", and gradus needs 8.0 (A100, RTX 30) or more: use another GPU, or gradus::cpu";
}
inline std::string too_old(cuda_device device) {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, device);
  if (major >= 8) return "";  // the name takes long
  return too_old(major, attribute(cudaDevAttrComputeCapabilityMinor, device), name_of(device));
}
/// Why there is no GPU; empty if there is one.
inline std::string no_gpu_reason() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return std::string(cudaGetErrorString(status)) + advice(status);
  }
  return devices == 0 ? "there is no NVIDIA GPU here" : "";
}

}  // namespace cuda_kit

/// Why the calling thread's current GPU is not usable; empty if it is.
inline std::string cuda_unavailable_reason() {
  const std::string reason = cuda_kit::no_gpu_reason();
  return reason.empty() ? cuda_kit::too_old(cuda_device::current()) : reason;
}
/// True if a cuda_stream can be created.
inline bool cuda_available() { return cuda_unavailable_reason().empty(); }

namespace cuda_kit {

/// Throws error, prefixed by `who`, if there is no such GPU, or the kernels cannot run on it.
inline void check_available(cuda_device device, const char* who) {
  if (const std::string reason = no_gpu_reason(); !reason.empty()) throw error(std::string(who) + ": " + reason);
  if (const int count = cuda_device::count(); device.number < 0 || device.number >= count)
    throw error(std::string(who) + ": there is no GPU " + std::to_string(device.number) + " here: " +
                (count == 1 ? "the one GPU has number 0"
                            : "the " + std::to_string(count) + " GPUs have numbers 0 to " + std::to_string(count - 1)));
  if (const std::string reason = too_old(device); !reason.empty()) throw error(std::string(who) + ": " + reason);
}

/// Makes a GPU the calling thread's current one during its lifetime: the one of launches and new streams and memory.
class device_guard {
 public:
  explicit device_guard(cuda_device device) noexcept : before_(cuda_device::current()) {
    if (device == before_) return;
    changed_ = cudaSetDevice(device.number) == cudaSuccess;
    if (!changed_) static_cast<void>(cudaGetLastError());  // the next use of the GPU reports it
  }
  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;
  ~device_guard() {
    if (changed_) static_cast<void>(cudaSetDevice(before_.number));
  }

 private:
  cuda_device before_;
  bool changed_ = false;
};

}  // namespace cuda_kit

}  // namespace gradus
