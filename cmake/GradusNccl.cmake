# gradus::nccl: gradus::cuda with NCCL, for ranks/nccl_communicator.hpp. It is there if nccl.h and the library are found
# and, in gradus itself, GRADUS_NCCL is not OFF; otherwise gradus_nccl_missing says what is missing. Included by gradus
# itself and by the installed package.

set(gradus_nccl_missing "there is no CUDA")
if(TARGET gradus::cuda AND NOT TARGET gradus::nccl)
  find_path(GRADUS_NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_HOME ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(GRADUS_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ENV NCCL_HOME ${CUDAToolkit_LIBRARY_DIR}
               PATH_SUFFIXES lib)
  mark_as_advanced(GRADUS_NCCL_INCLUDE_DIR GRADUS_NCCL_LIBRARY)
  if(NOT GRADUS_NCCL_INCLUDE_DIR)
    set(gradus_nccl_missing "nccl.h was not found: set GRADUS_NCCL_INCLUDE_DIR to its folder")
  elseif(NOT GRADUS_NCCL_LIBRARY)
    set(gradus_nccl_missing "libnccl was not found: set GRADUS_NCCL_LIBRARY to its path")
  else()
    add_library(gradus_nccl INTERFACE)
    add_library(gradus::nccl ALIAS gradus_nccl)
    target_include_directories(gradus_nccl SYSTEM INTERFACE "${GRADUS_NCCL_INCLUDE_DIR}")
    target_link_libraries(gradus_nccl INTERFACE gradus::cuda "${GRADUS_NCCL_LIBRARY}")
  endif()
endif()
