# Turns the CUDA language on where there is an nvcc, and works around what CMake 3.25 does not know about nvcc 13.
# In a project that adds gradus as a subdirectory, AUTO follows the project: gradus::cuda exists if CUDA was enabled
# there.

set(gradus_nvcc "")
if(CMAKE_CUDA_COMPILER)
  set(gradus_nvcc "${CMAKE_CUDA_COMPILER}")
elseif(DEFINED ENV{CUDACXX} AND PROJECT_IS_TOP_LEVEL)
  set(gradus_nvcc "$ENV{CUDACXX}")
elseif(PROJECT_IS_TOP_LEVEL OR GRADUS_CUDA STREQUAL "ON")
  find_program(GRADUS_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(GRADUS_NVCC)
  if(GRADUS_NVCC)
    set(gradus_nvcc "${GRADUS_NVCC}")
  endif()
endif()

if(gradus_nvcc)
  # Without this CMake tries its own default, sm_52, which nvcc 13 no longer knows.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80;90a-real" CACHE STRING
        "GPU architectures: machine code for A100 and H100/H200, and PTX for those between and after them, by default")
  endif()
  if(GRADUS_CUDA_PTX)  # variables of this run alone: the cached list stays for builds without it
    set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${gradus_nvcc}" CACHE FILEPATH "The CUDA compiler" FORCE)
  endif()
  enable_language(CUDA)
  if(PROJECT_IS_TOP_LEVEL AND CMAKE_CUDA_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")  # CMake's own
    set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG")  # nvcc's -O is for the half of the host, which launches kernels
  endif()
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  if(NOT CMAKE_CUDA_STANDARD)
    set(CMAKE_CUDA_STANDARD 20)
  endif()
  find_package(CUDAToolkit QUIET)
  if(TARGET CUDA::cudart AND TARGET CUDA::cublasLt)
    set(GRADUS_HAS_CUDA ON)
  elseif(GRADUS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GRADUS_CUDA=ON and ${gradus_nvcc} works, but cudart or cublasLt was not found beside it")
  endif()
elseif(GRADUS_CUDA STREQUAL "ON")
  message(FATAL_ERROR "GRADUS_CUDA=ON, but there is no nvcc on the PATH, in CUDA_HOME or in /usr/local/cuda")
endif()
