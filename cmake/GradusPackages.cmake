# Debian packages, by `cpack`: libgradus-dev, the library's package and the command `gradus`, with the sources from
# which it compiles trainers. Configure with -DCMAKE_INSTALL_PREFIX=/usr and without GRADUS_NATIVE (scripts/release.sh
# does).

if(NOT TARGET gradus_command)
  message(FATAL_ERROR
    "GRADUS_PACKAGES=ON: a package has the command, which needs GRADUS_BUILD_EXAMPLES=ON, CLI11 and nlohmann json")
endif()

# ---- the command -----------------------------------------------------------------------------------------------------
install(TARGETS gradus_command RUNTIME COMPONENT command)
install(FILES "${PROJECT_SOURCE_DIR}/CMakeLists.txt" DESTINATION "${CMAKE_INSTALL_DATADIR}/gradus" COMPONENT command)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/cmake" "${PROJECT_SOURCE_DIR}/examples"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/gradus" COMPONENT command)
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/packages/include")
file(CREATE_LINK "../../../${CMAKE_INSTALL_INCLUDEDIR}/gradus" "${PROJECT_BINARY_DIR}/packages/include/gradus" SYMBOLIC)
install(DIRECTORY "${PROJECT_BINARY_DIR}/packages/include" DESTINATION "${CMAKE_INSTALL_DATADIR}/gradus"
        COMPONENT command)

# ---- the single header -----------------------------------------------------------------------------------------------
execute_process(COMMAND "${PROJECT_SOURCE_DIR}/scripts/amalgamate.sh" "${PROJECT_BINARY_DIR}/packages/single"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
install(FILES "${PROJECT_BINARY_DIR}/packages/single/gradus/gradus.hpp"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gradus/single" COMPONENT dev)

# ---- the packages ----------------------------------------------------------------------------------------------------
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL library dev command)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_VENDOR gradus)
set(CPACK_PACKAGE_CONTACT "gradus contributors <gradus@example.org>")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

# gradus_package(<component> <name> <section> <depends> <description>): a package and its papers.
function(gradus_package component name section depends summary description)
  string(TOUPPER ${component} key)
  foreach(value IN ITEMS "PACKAGE_NAME;${name}" "PACKAGE_SECTION;${section}" "PACKAGE_DEPENDS;${depends}")
    list(POP_FRONT value variable)
    set(CPACK_DEBIAN_${key}_${variable} "${value}" PARENT_SCOPE)
  endforeach()
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
  set(papers "${CMAKE_INSTALL_DATAROOTDIR}/doc/${name}")
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${papers}" RENAME copyright COMPONENT ${component})
  install(FILES "${PROJECT_BINARY_DIR}/packages/changelog.gz" DESTINATION "${papers}" COMPONENT ${component})
endfunction()
execute_process(COMMAND gzip -9nc "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
                OUTPUT_FILE "${PROJECT_BINARY_DIR}/packages/changelog.gz" COMMAND_ERROR_IS_FATAL ANY)

set(library libgradus${gradus_soversion})
gradus_package(library ${library} libs ""
  "tensors and automatic differentiation in C++, the shared library"
  "gradus is a C++20 library for training neural networks. This package has its functions and its kernels for several \
processors, of which the best is loaded.")
gradus_package(dev libgradus-dev libdevel "${library} (= ${PROJECT_VERSION}), libc6-dev"
  "tensors and automatic differentiation in C++, the headers"
  "gradus is a C++20 library for training neural networks: tensors whose shape, element type and device are part of \
their type, and a tape that differentiates what is computed with them. This package has its headers, also as one file, \
and the files of CMake and pkg-config.")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "nlohmann-json3-dev, libeigen3-dev")
gradus_package(command gradus science
  "libgradus-dev (= ${PROJECT_VERSION}), g++ (>= 4:12), cmake (>= 3.25), ninja-build, libcli11-dev, nlohmann-json3-dev, libpcre2-dev"
  "trains language models on this machine"
  "gradus trains GPTs, Llamas and BERTs, samples from them, evaluates and converts them. It compiles the programs for a \
model's sizes, in the user's cache. This package has its examples, too.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "bible-kjv")
include(CPack)
