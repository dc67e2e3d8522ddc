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
        DESTINATION "${CMAKE_INSTALL_DATADIR}/gradus" COMPONENT command
        PATTERN conan EXCLUDE PATTERN vcpkg EXCLUDE PATTERN "*.sh" EXCLUDE)
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
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "tensors and automatic differentiation in C++")

set(papers "${PROJECT_BINARY_DIR}/packages")
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE "${papers}/changelog" "gradus (${PROJECT_VERSION}) unstable; urgency=medium

  * CHANGELOG.md.gz says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
execute_process(COMMAND gzip -9nf "${papers}/changelog" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND gzip -9nc "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
                OUTPUT_FILE "${papers}/CHANGELOG.md.gz" COMMAND_ERROR_IS_FATAL ANY)

# gradus_package(<component> <name> <section> <depends> <description>): a package and its papers.
function(gradus_package component name section depends description)
  string(TOUPPER ${component} key)
  foreach(value IN ITEMS "PACKAGE_NAME;${name}" "PACKAGE_SECTION;${section}" "PACKAGE_DEPENDS;${depends}")
    list(POP_FRONT value variable)
    set(CPACK_DEBIAN_${key}_${variable} "${value}" PARENT_SCOPE)
  endforeach()
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${description}" PARENT_SCOPE)
  set(folder "${CMAKE_INSTALL_DATAROOTDIR}/doc/${name}")
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${folder}" RENAME copyright COMPONENT ${component})
  install(FILES "${papers}/changelog.gz" "${papers}/CHANGELOG.md.gz" DESTINATION "${folder}" COMPONENT ${component})
endfunction()

set(library libgradus${gradus_soversion})
gradus_package(library ${library} libs ""
"gradus is a C++20 library for training neural networks.
This package has its functions and its kernels for several processors,
of which the best is loaded.")
file(WRITE "${papers}/triggers" "activate-noawait ldconfig\n")
file(WRITE "${papers}/shlibs" "libgradus ${gradus_soversion} ${library} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${papers}/triggers;${papers}/shlibs")
gradus_package(dev libgradus-dev libdevel "${library} (= ${PROJECT_VERSION}), libc6-dev"
"gradus is a C++20 library for training neural networks: tensors whose
shape, element type and device are part of their type, and a tape that
differentiates what is computed with them.
This package has its headers, also as one file, and the files of CMake
and pkg-config.")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "nlohmann-json3-dev, libeigen3-dev")
set(needs "libgradus-dev (= ${PROJECT_VERSION})" "g++ (>= 4:12)" "cmake (>= 3.25)" ninja-build libcli11-dev
  nlohmann-json3-dev libpcre2-dev)
list(JOIN needs ", " needs)
gradus_package(command gradus science "${needs}"
"The command gradus trains GPTs, Llamas and BERTs, samples from them,
evaluates and converts them. It compiles the programs for a model's sizes
in the user's cache. This package has the library's lessons, too.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "bible-kjv")
include(CPack)
