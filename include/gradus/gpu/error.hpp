#pragma once
// Turns CUDA's status codes into exceptions.

#include <cuda_runtime_api.h>

#if defined(__GNUG__)
#include <cxxabi.h>
#endif

#include <cstdlib>
#include <string>
#include <string_view>

#include "../core/error.hpp"

namespace gradus::cuda_kit {

/// How a user can fix a CUDA error; null if the error string suffices.
inline const char* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorNoDevice:
      return "; there is no NVIDIA GPU here: use gradus::cpu instead";
    case cudaErrorInsufficientDriver:
      return "; the driver is older than the CUDA version this program was built with, or missing: install a newer "
             "driver, or use "
             "gradus::cpu";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "; the program was not built for this GPU: add its architecture to CMAKE_CUDA_ARCHITECTURES";
    case cudaErrorMemoryAllocation:
      return "; ask for less, such as a smaller batch, or free memory first";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "; an earlier kernel failed: run again with GRADUS_CUDA_SYNC=1, which names it, or under "
             "compute-sanitizer";
    case cudaErrorDevicesUnavailable:
      return "; another process may hold the GPU exclusively";
    default:
      return "";
  }
}

[[noreturn]] inline void fail(cudaError_t status, const char* call) {
  static_cast<void>(cudaGetLastError());  // the next launch must not report it again
  throw error(std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")" +
              advice(status));
}

/// Throws an error that names the call, unless it succeeded. A kernel's error is reported by a later call.
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) fail(status, call);
}

/// The name of a kernel without parameters and template arguments: "gradus::cuda_kit::adamw_kernel".
inline std::string kernel_name(const void* kernel) {
  const char* mangled = nullptr;
#if CUDART_VERSION >= 12030
  if (cudaFuncGetName(&mangled, kernel) != cudaSuccess) mangled = nullptr;
#else
  static_cast<void>(kernel);
#endif
  if (mangled == nullptr) return "a kernel";
  std::string name = mangled;
#if defined(__GNUG__)
  int status = 0;
  if (char* plain = abi::__cxa_demangle(mangled, nullptr, nullptr, &status)) {
    name = plain;
    std::free(plain);
  }
#endif
  if (name.starts_with("void ")) name.erase(0, 5);
  const std::string unnamed = "(anonymous namespace)::";
  if (name.starts_with(unnamed)) name.erase(0, unnamed.size());
  return name.substr(0, name.find_first_of("<("));
}

/// Throws an error that names the kernel that failed to launch, and its grid.
[[noreturn]] inline void fail_launch(cudaError_t status, const void* kernel, dim3 blocks, dim3 threads) {
  const auto extents = [](dim3 d) {
    return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
  };
  const std::string call =
      "launch of " + kernel_name(kernel) + " in " + extents(blocks) + " blocks of " + extents(threads) + " threads";
  fail(status, call.c_str());
}
/// Throws an error that names the kernel, or the library's function, that failed while it ran, and where that was.
[[noreturn]] inline void fail_run(cudaError_t status, std::string_view kernel, const std::string& where) {
  static_cast<void>(cudaGetLastError());
  throw error(std::string(kernel) + " failed " + where + ": " + cudaGetErrorString(status) + " (" +
              cudaGetErrorName(status) + ")");
}

}  // namespace gradus::cuda_kit
