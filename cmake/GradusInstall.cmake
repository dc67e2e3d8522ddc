# Installs the headers, a package for find_package(gradus), which looks its own dependencies up again, and files for
# pkg-config.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)
set(gradus_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gradus")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp" PATTERN "c_api.h" PATTERN "*.ipp" PATTERN "compiled*.cpp" PATTERN "compiled.cu"
        PATTERN "cudnn*.cpp")
install(TARGETS gradus EXPORT gradus_targets)
if(GRADUS_SHARED)
  install(TARGETS gradus_shared EXPORT gradus_targets
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT dev)
  foreach(processor IN LISTS GRADUS_PROCESSORS)
    install(TARGETS gradus_shared_${processor}
            LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/${processor}" COMPONENT library NAMELINK_SKIP)
  endforeach()
endif()
install(EXPORT gradus_targets NAMESPACE gradus:: DESTINATION "${gradus_package_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/gradus-config.cmake.in"
  "${PROJECT_BINARY_DIR}/gradus-config.cmake" INSTALL_DESTINATION "${gradus_package_dir}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/gradus-config-version.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  "${PROJECT_SOURCE_DIR}/cmake/GradusCompiled.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/GradusCudaCompiled.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/GradusCudnn.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/GradusNccl.cmake"
  "${PROJECT_BINARY_DIR}/gradus-config.cmake"
  "${PROJECT_BINARY_DIR}/gradus-config-version.cmake"
  DESTINATION "${gradus_package_dir}")

# gradus_pkg_config(<name> <lines>...): the file <name>.pc. Its paths are relative to its own folder.
function(gradus_pkg_config name description)
  file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" up "${up}")
  list(JOIN ARGN "\n" lines)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}.pc" CONTENT
"prefix=\${pcfiledir}/${up}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
${lines}
" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()
gradus_pkg_config(gradus "${PROJECT_DESCRIPTION}" "Cflags: -I\${includedir}" "Libs: -pthread")
if(GRADUS_SHARED)
  gradus_pkg_config(gradus-compiled "The headers of gradus with functions and kernels of its shared library"
    "Requires: gradus" "Cflags: -DGRADUS_COMPILED=1 -DGRADUS_KERNELS_OF_base=1" "Libs: -L\${libdir} -lgradus")
endif()
