# Finds what the headers need (threads) and what they use where it is there (CUDA, MPI).
# Sets GRADUS_HAS_CUDA and GRADUS_HAS_MPI to ON or OFF.

find_package(Threads REQUIRED)

# To a compiler for Windows, /usr/include is another system's: the libraries that are headers alone get a folder of
# their own.
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CROSSCOMPILING AND WIN32)
  foreach(library doctest nlohmann CLI)
    find_path(gradus_${library} ${library} NO_CMAKE_FIND_ROOT_PATH NO_CACHE)
    if(gradus_${library})
      file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/headers/include")
      file(CREATE_LINK "${gradus_${library}}/${library}" "${PROJECT_BINARY_DIR}/headers/include/${library}" SYMBOLIC)
    endif()
  endforeach()
  list(APPEND CMAKE_FIND_ROOT_PATH "${PROJECT_BINARY_DIR}/headers")
endif()

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
