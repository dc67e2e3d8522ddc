#!/usr/bin/env bash
# Installs what a group of scripts needs, and does nothing where it is all there.
#
#   scripts/setup.sh [GROUP...]      groups: build train test clang clang19-libcxx aarch64 windows bench format lint
#                                    docs mpi release (default: build test)
#   source scripts/setup.sh          defines gradus_setup for another script
#
# A need is met by a command or a header, wherever it came from; what is missing is installed with apt-get, as root or
# with sudo. Without either, the list of packages is printed and the exit status is 1.

# numbers: f1 version known u

# Each need: the Debian package, a name for people, and a check, which passes where the need is met.
gradus_needs() {
  case $1 in
    build)
      echo "g++|g++ 12 or newer|gradus_gxx_is_new"
      echo "cmake|CMake 3.25 or newer|gradus_cmake_is_new"
      echo "ninja-build|Ninja|command -v ninja"
      echo "libcli11-dev|CLI11|gradus_has_header CLI/CLI.hpp"
      echo "nlohmann-json3-dev|nlohmann json|gradus_has_header nlohmann/json.hpp"
      echo "libpcre2-dev|PCRE2|gradus_has_header pcre2.h"
      echo "ccache|ccache|command -v ccache" ;;
    train)
      gradus_needs build
      echo "bible-kjv|the default training text|command -v bible" ;;
    test)
      gradus_needs build
      echo "doctest-dev|doctest|gradus_has_header doctest/doctest.h"
      echo "libeigen3-dev|Eigen|gradus_has_header eigen3/Eigen/Core"
      echo "pkgconf|pkg-config|command -v pkg-config"
      echo "clang|clang++, to check its messages too|command -v clang++"
      gradus_needs docs ;;
    clang)
      echo "clang|clang++|command -v clang++" ;;
    clang19-libcxx)
      echo "clang-19|clang++ 19|command -v clang++-19"
      echo "libc++-19-dev|libc++ 19|gradus_has_libcxx"
      echo "libc++abi-19-dev|libc++abi 19|gradus_has_libcxx" ;;
    aarch64)
      echo "g++-aarch64-linux-gnu|g++ for 64-bit ARM|command -v aarch64-linux-gnu-g++"
      echo "qemu-user|qemu, to run programs for 64-bit ARM|command -v qemu-aarch64" ;;
    windows)
      echo "g++-mingw-w64-x86-64-posix|g++ for Windows|command -v x86_64-w64-mingw32-g++-posix"
      echo "wine64|wine, to run programs for Windows|test -x /usr/lib/wine/wine64" ;;
    bench)
      gradus_needs build
      echo "doctest-dev|doctest|gradus_has_header doctest/doctest.h"
      echo "libbenchmark-dev|Google Benchmark|gradus_has_header benchmark/benchmark.h"
      echo "python3|Python 3|command -v python3" ;;
    format) echo "clang-format-16|clang-format 16|command -v clang-format-16" ;;
    lint) gradus_needs test; echo "clang-tidy|clang-tidy|command -v clang-tidy" ;;
    mpi)
      gradus_needs build
      echo "libopenmpi-dev|MPI|command -v mpicxx"
      echo "openmpi-bin|mpirun|command -v mpirun" ;;
    docs) echo "doxygen|Doxygen|command -v doxygen" ;;
    release)
      gradus_needs test
      echo "debootstrap|debootstrap|command -v debootstrap"
      echo "dpkg-dev|dpkg-shlibdeps|command -v dpkg-shlibdeps"
      echo "file|file|command -v file"
      echo "lintian|lintian|command -v lintian"
      echo "python3-venv|Python's venv|python3 -m ensurepip --version" ;;
    *)
      gradus_complain "setup: no group '$1': build, train, test, clang, clang19-libcxx, aarch64, windows, bench," \
        "format, lint, docs, mpi or release"
      return 2 ;;
  esac
}

# gradus_complain WORDS...: one line on stderr; control characters of what it quotes are shown as question marks.
gradus_complain() {
  local message=$*
  echo "${message//[[:cntrl:]]/?}" >&2
}

gradus_gxx_is_new() { command -v g++ && [[ $(g++ -dumpversion | cut -d. -f1) -ge 12 ]]; }

gradus_cmake_is_new() {
  command -v cmake || return 1
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\.[0-9]*\).*/\1/p')
  [[ ${version%%.*} -gt 3 || (${version%%.*} -eq 3 && ${version##*.} -ge 25) ]]
}

# gradus_has_header HEADER: looks where compilers and CMake look.
gradus_has_header() {
  local folder
  local IFS=:
  for folder in /usr /usr/local ${CMAKE_PREFIX_PATH:-}; do
    [[ -f ${folder%/}/include/$1 ]] && return 0
  done
  for folder in ${CPATH:-} ${CPLUS_INCLUDE_PATH:-}; do
    [[ -f ${folder%/}/$1 ]] && return 0
  done
  return 1
}

gradus_has_libcxx() { echo '#include <version>' | clang++-19 -stdlib=libc++ -fsyntax-only -x c++ -; }

# gradus_missing GROUP...: the needs that are not met, one a line, as gradus_needs writes them.
gradus_missing() {
  local group package name check
  for group in "$@"; do gradus_needs "$group"; done | sort -u | while IFS='|' read -r package name check; do
    eval "$check" >/dev/null 2>&1 || echo "$package|$name|$check"
  done
}

# gradus_apt SUDO PACKAGE...: installs; asks for new package lists only if the ones there do not know a package.
gradus_apt() {
  local run=$1 package
  shift
  local environment=(env DEBIAN_FRONTEND=noninteractive)
  local options=(-y -q --no-install-recommends -o Dpkg::Use-Pty=0)
  local known=1
  for package in "$@"; do
    apt-cache show "$package" >/dev/null 2>&1 || known=0
  done
  if [[ $known -eq 1 ]] && $run "${environment[@]}" apt-get install "${options[@]}" "$@"; then return 0; fi
  $run "${environment[@]}" apt-get update -q && $run "${environment[@]}" apt-get install "${options[@]}" "$@"
}

# gradus_setup GROUP...: 0 if, in the end, nothing is missing.
gradus_setup() {
  local missing packages run="" group
  for group in "$@"; do gradus_needs "$group" >/dev/null || return; done
  missing=$(gradus_missing "$@")
  [[ -n $missing ]] || return 0
  mapfile -t packages <<<"$(cut -d'|' -f1 <<<"$missing")"
  if ! command -v apt-get >/dev/null; then
    echo "setup: these are missing, and there is no apt-get to install them with:" >&2
    awk -F'|' '{ printf "  %s (Debian package %s)\n", $2, $1 }' <<<"$missing" >&2
    return 1
  fi
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: not root and no sudo; as root, run: apt-get update && apt-get install -y ${packages[*]}" >&2
      return 1
    fi
    run=sudo
  fi
  echo "setup: installing ${packages[*]}"
  local log
  log=$(mktemp)
  if ! gradus_apt "$run" "${packages[@]}" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "setup: could not install: ${packages[*]}" >&2
    return 1
  fi
  rm -f "$log"
  missing=$(gradus_missing "$@")
  if [[ -n $missing ]]; then
    echo "setup: installed, and still not good enough:" >&2
    awk -F'|' '{ printf "  %s (from Debian package %s)\n", $2, $1 }' <<<"$missing" >&2
    return 1
  fi
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  if [[ ${1:-} == -h || ${1:-} == --help ]]; then sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0; fi
  if [[ $# -eq 0 ]]; then set -- build test; fi
  gradus_setup "$@"
fi
