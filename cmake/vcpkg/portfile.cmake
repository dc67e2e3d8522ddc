# An overlay port of this checkout: vcpkg install gradus --overlay-ports=cmake/vcpkg
set(VCPKG_BUILD_TYPE release)  # header-only
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS
  -DGRADUS_BUILD_TESTS=OFF
  -DGRADUS_BUILD_EXAMPLES=OFF
  -DGRADUS_BUILD_BENCHMARKS=OFF
  -DGRADUS_CUDA=OFF
  -DGRADUS_MPI=OFF
  -DGRADUS_NCCL=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/gradus)
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
