#pragma once
#include <cuda_runtime_api.h>

#include <string>

#include "../core/error.hpp"

namespace gradus::cuda_kit {

/// What a user can do about a CUDA error, or nothing where the error string says it all.
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
      return "; an earlier kernel failed: run under compute-sanitizer to find which (the program must start again)";
    case cudaErrorDevicesUnavailable:
      return "; another process may hold the GPU exclusively";
    default:
      return "";
  }
}

[[noreturn]] inline void fail(cudaError_t status, const char* call) {
  static_cast<void>(cudaGetLastError());  // an error that was reported must not come up again at the next launch
  throw error(std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")" +
              advice(status));
}

/// Throws an error that names the call, unless it succeeded. Kernels run later: an error of theirs shows at a later call.
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) fail(status, call);
}

}  // namespace gradus::cuda_kit
