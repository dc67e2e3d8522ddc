"""The Conan recipe: `conan create cmake/conan`; `-o "gradus/*:compiled=True"` has the shared library, too."""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Gradus(ConanFile):
    name = "gradus"
    description = "Compile-time-shaped tensors and tape autodiff"
    license = "MIT"
    topics = ("tensors", "autodiff", "machine learning", "header-only")
    settings = "os", "arch", "compiler", "build_type"
    options = {"compiled": [True, False]}
    default_options = {"compiled": False}

    @property
    def _project(self):
        return Path(self.recipe_folder).parents[1]

    def set_version(self):
        text = load(self, self._project / "include/gradus/core/config.hpp")
        self.version = ".".join(re.findall(r"#define GRADUS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))

    def export_sources(self):
        for pattern in "CMakeLists.txt", "LICENSE", "cmake/*.cmake", "cmake/*.in", "cmake/*.map", "include/*":
            copy(self, pattern, self._project, self.export_sources_folder)

    def configure(self):
        self.package_type = "shared-library" if self.options.compiled else "header-library"

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        tc = CMakeToolchain(self)
        tc.cache_variables |= {
            "GRADUS_SHARED": bool(self.options.compiled),
            "GRADUS_CUDA": "OFF",
            "GRADUS_MPI": "OFF",
            "GRADUS_NATIVE": False,
            "GRADUS_BUILD_TESTS": False,
            "GRADUS_BUILD_EXAMPLES": False,
            "GRADUS_BUILD_BENCHMARKS": False,
        }
        tc.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_id(self):
        if not self.info.options.compiled:
            self.info.clear()

    def package_info(self):
        # find_package(gradus) reads the package's own files, which have more targets than a recipe can name.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/gradus"]
        self.cpp_info.set_property("pkg_config_name", "gradus-compiled" if self.options.compiled else "gradus")
        self.cpp_info.system_libs = ["pthread"]
        self.cpp_info.libdirs = []
        self.cpp_info.bindirs = []
        if self.options.compiled:
            self.cpp_info.libdirs = ["lib"]
            self.cpp_info.libs = ["gradus"]
            self.cpp_info.defines = ["GRADUS_COMPILED=1", "GRADUS_KERNELS_OF_base=1"]
