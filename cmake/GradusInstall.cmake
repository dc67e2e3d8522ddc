# Installs the headers and a package for find_package(gradus), which looks its own dependencies up again.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(gradus_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gradus")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" 
        FILES_MATCHING PATTERN "*.hpp" PATTERN "c_api.h" PATTERN "*.ipp" PATTERN "compiled*.cpp" PATTERN "compiled.cu"
        PATTERN "cudnn*.cpp")
install(TARGETS gradus EXPORT gradus_targets)
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
