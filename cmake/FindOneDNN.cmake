# Finds oneDNN 2.6 or newer, of either major version, as the imported target gradus::onednn: bench/ops compares
# with it. The library itself does not use it.
#
# Debian's own dnnl-config.cmake insists on OpenCL, which nothing here uses, so the header and the library are looked up
# directly; set CMAKE_PREFIX_PATH or OneDNN_ROOT for a oneDNN in an unusual place.
#
# Sets OneDNN_FOUND and OneDNN_VERSION.

find_path(OneDNN_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.h HINTS ENV DNNLROOT PATH_SUFFIXES include)
find_library(OneDNN_LIBRARY NAMES dnnl HINTS ENV DNNLROOT PATH_SUFFIXES lib)
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)

set(OneDNN_VERSION "")
if(OneDNN_INCLUDE_DIR AND EXISTS "${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h")
  file(STRINGS "${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" one_dnn_lines
       REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" one_dnn_numbers "${one_dnn_lines}")
  string(REPLACE ";" "." OneDNN_VERSION "${one_dnn_numbers}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR VERSION_VAR OneDNN_VERSION)

if(OneDNN_FOUND AND NOT TARGET gradus::onednn)
  add_library(gradus::onednn UNKNOWN IMPORTED)
  set_target_properties(gradus::onednn PROPERTIES
    IMPORTED_LOCATION "${OneDNN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${OneDNN_INCLUDE_DIR}")
endif()
