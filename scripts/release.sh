#!/usr/bin/env bash
# Checks that this state of the project can be released, and tags it.
#
#   scripts/release.sh --check [--no-tests]   checks everything, and says one line of each: the tree, versions,
#                                             CHANGELOG.md, all tests, the packages of Debian, Conan and vcpkg, each
#                                             with a consumer's project
#   scripts/release.sh --packages             only makes the Debian packages, in build/packages
#   scripts/release.sh                        checks everything, and makes the tag vX.Y.Z; pushes nothing
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
# numbers: failed status
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

mode=tag tests=1
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --check | --packages) mode=${1#--} ;;
    --no-tests) tests=0 ;;
    *) gradus_complain "release.sh: unknown argument '$1'; --help says what there is"; exit 2 ;;
  esac
  shift
done
if [[ $tests == 0 && $mode == tag ]]; then
  gradus_complain "release.sh: --no-tests is for --check: a release is tested"
  exit 2
fi

build=$PWD/build/packages
mkdir -p "$build"
version=$(sed -n 's/^#define GRADUS_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/gradus/core/config.hpp | paste -sd.)
failed=0
# check NAME COMMAND...: one line: what the command's last line says, or that it failed.
check() {
  local name=$1
  shift
  local status=0
  set +e  # a condition would have commands in it go on after a failure
  (set -e; "$@") >"$build/$name.log" 2>&1
  status=$?
  set -e
  if [[ $status -eq 0 ]]; then
    echo "ok      $name: $(tail -n 1 "$build/$name.log")"
  else
    echo "FAILED  $name: $(tail -n 1 "$build/$name.log") (see $build/$name.log)"
    failed=1
  fi
}

tree() {
  [[ -z $(git status --porcelain) ]] || { echo "not clean: git status says what is not committed"; return 1; }
  echo "clean, at $(git rev-parse --short HEAD)"
}
versions() {
  local port
  port=$(sed -n 's/.*"version": "\(.*\)".*/\1/p' cmake/vcpkg/vcpkg.json)
  [[ $port == "$version" ]] || { echo "core/config.hpp has $version, and cmake/vcpkg/vcpkg.json has $port"; return 1; }
  if grep -rnE 'find_package\(gradus [0-9]' README.md docs tests cmake |
    grep -vF "find_package(gradus ${version%.*} "; then
    echo "these ask for another version than ${version%.*}"
    return 1
  fi
  ! git rev-parse -q --verify "refs/tags/v$version" || { echo "the tag v$version is there already"; return 1; }
  echo "$version everywhere"
}
changelog() {
  if grep -qE "^## \[$version\] - 20[0-9]{2}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md; then
    echo "$version has a date"
  elif [[ $mode == check ]] && grep -qF "## [Unreleased]: $version" CHANGELOG.md; then
    echo "$version is unreleased; its release needs a line '## [$version] - YYYY-MM-DD'"
  else
    echo "CHANGELOG.md has no line '## [$version] - YYYY-MM-DD'"
    return 1
  fi
}
packages() {
  rm -f "$build"/*.deb
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DGRADUS_PACKAGES=ON \
    -DGRADUS_NATIVE=OFF -DGRADUS_CUDA=OFF -DGRADUS_MPI=OFF -DGRADUS_BUILD_TESTS=OFF -DGRADUS_BUILD_BENCHMARKS=OFF
  cmake --build "$build" --target gradus_command gradus_shared_all
  (cd "$build" && cpack)
  ls "$build"/*.deb | xargs -n 1 basename | paste -sd' '
}
look_at_packages() {
  lintian --allow-root --fail-on error "$build"/*.deb 2>&1 | tee "$build/lintian.txt"
  echo "no error, $(grep -c '^W' "$build/lintian.txt") warnings"
}

gradus_setup release
if [[ $mode == packages ]]; then
  check packages packages
  exit "$failed"
fi
check tree tree
check versions versions
check changelog changelog
check packages packages
check lintian look_at_packages
check debian bash tests/package/debian.sh "$build" "$build/debian"
check conan bash tests/package/conan.sh "$build/conan"
check vcpkg cmake -DWORK="$build/vcpkg" -P tests/package/vcpkg.cmake
if [[ $tests == 1 && $failed -eq 0 ]]; then check tests scripts/test.sh; fi  # an hour, if the rest is right
[[ $failed -eq 0 ]] || { echo "release.sh: $version cannot be released like this"; exit 1; }
if [[ $mode == check ]]; then echo "release.sh: $version can be released"; exit 0; fi
if git config user.signingkey >/dev/null; then sign=-s; else sign=-a; fi
git tag "$sign" "v$version" -m "gradus $version"
echo "tagged v$version; 'git push origin v$version' publishes it"
