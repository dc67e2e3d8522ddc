# Finds what the headers need (threads) and what they use where it is there (CUDA, MPI).
# Sets GRADUS_HAS_CUDA and GRADUS_HAS_MPI to ON or OFF.

find_package(Threads REQUIRED)

set(GRADUS_HAS_CUDA OFF)
if(NOT GRADUS_CUDA STREQUAL "OFF")
  include(GradusCuda)
endif()

set(GRADUS_HAS_MPI OFF)
if(NOT GRADUS_MPI STREQUAL "OFF" AND (PROJECT_IS_TOP_LEVEL OR GRADUS_MPI STREQUAL "ON" OR TARGET MPI::MPI_CXX))
  find_package(MPI 3.0 QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)  # the target MPI::MPI_CXX may exist although nothing was found
    set(GRADUS_HAS_MPI ON)
  elseif(GRADUS_MPI STREQUAL "ON")
    message(FATAL_ERROR "GRADUS_MPI=ON, but no MPI 3 was found (Debian: libopenmpi-dev openmpi-bin, or libmpich-dev \
mpich); MPI_CXX_COMPILER may name its mpicxx")
  endif()
endif()
