# gradus::cudnn: gradus::cuda with attention of bf16 and f16 by cuDNN where that has a kernel. It is built when a
# program links it, and is there if cudnn.h, the library and cudnn_frontend.h are found; otherwise gradus_cudnn_missing
# says what is missing. Included by gradus itself and by the installed package, where gradus_SOURCES is the folder of
# the sources.

set(gradus_cudnn_missing "there is no CUDA")
if(TARGET gradus::cuda AND NOT TARGET gradus::cudnn)
  find_path(GRADUS_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(GRADUS_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
  find_path(GRADUS_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h)
  mark_as_advanced(GRADUS_CUDNN_INCLUDE_DIR GRADUS_CUDNN_LIBRARY GRADUS_CUDNN_FRONTEND_INCLUDE_DIR)
  if(NOT GRADUS_CUDNN_INCLUDE_DIR)
    set(gradus_cudnn_missing "cudnn.h was not found: set GRADUS_CUDNN_INCLUDE_DIR to its folder")
  elseif(NOT GRADUS_CUDNN_LIBRARY)
    set(gradus_cudnn_missing "libcudnn was not found: set GRADUS_CUDNN_LIBRARY to its path")
  elseif(NOT GRADUS_CUDNN_FRONTEND_INCLUDE_DIR)
    set(gradus_cudnn_missing "cudnn_frontend.h was not found: set GRADUS_CUDNN_FRONTEND_INCLUDE_DIR to its folder \
(the package nvidia-cudnn-frontend of PyPI has it)")
  else()
    add_library(gradus_cudnn STATIC EXCLUDE_FROM_ALL "${gradus_SOURCES}/gpu/cudnn_attention.cpp")
    add_library(gradus::cudnn ALIAS gradus_cudnn)
    target_compile_definitions(gradus_cudnn PUBLIC GRADUS_WITH_CUDNN=1)
    target_include_directories(gradus_cudnn SYSTEM PRIVATE
      "${GRADUS_CUDNN_INCLUDE_DIR}" "${GRADUS_CUDNN_FRONTEND_INCLUDE_DIR}")
    target_link_libraries(gradus_cudnn PUBLIC gradus::cuda PRIVATE "${GRADUS_CUDNN_LIBRARY}" CUDA::nvrtc)
    set_target_properties(gradus_cudnn PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
endif()
