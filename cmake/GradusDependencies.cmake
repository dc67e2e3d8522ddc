# Finds what the headers need (threads) and what they use where it is there (OpenMP, CUDA).
# Sets GRADUS_HAS_OPENMP and GRADUS_HAS_CUDA to ON or OFF.

find_package(Threads REQUIRED)

set(GRADUS_HAS_OPENMP OFF)
if(NOT GRADUS_OPENMP STREQUAL "OFF")
  find_package(OpenMP COMPONENTS CXX QUIET)
  if(OpenMP_CXX_FOUND)
    set(GRADUS_HAS_OPENMP ON)
  elseif(GRADUS_OPENMP STREQUAL "ON")
    message(FATAL_ERROR "GRADUS_OPENMP=ON, but ${CMAKE_CXX_COMPILER} has no OpenMP (clang on Debian: apt-get install libomp-dev)")
  endif()
endif()

set(GRADUS_HAS_CUDA OFF)
if(NOT GRADUS_CUDA STREQUAL "OFF")
  include(GradusCuda)
endif()
