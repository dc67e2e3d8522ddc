#!/usr/bin/env bash
# conan.sh WORK: makes gradus by its Conan recipe, header-only and with the shared library, and builds and runs the
# recipe's consumer with each. Conan comes from PyPI, unless WORK/venv has it, and keeps what it has in WORK.
set -euo pipefail
[[ $# -eq 1 ]] || { echo "usage: $0 WORK" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd)
if [[ ! -x $work/venv/bin/conan ]]; then
  { python3 -m venv "$work/venv" && "$work/venv/bin/pip" -q install 'conan>=2,<3'; } >"$work/pip.log" 2>&1 ||
    { echo "conan.sh: Conan could not be installed; see $work/pip.log" >&2; exit 1; }
fi
export CONAN_HOME=$work/home
rm -rf "$CONAN_HOME"
"$work/venv/bin/conan" profile detect >"$work/profile.log" 2>&1
for compiled in False True; do
  "$work/venv/bin/conan" create "$root/cmake/conan" -s compiler.cppstd=20 -o "gradus/*:compiled=$compiled" \
    -c "tools.cmake.cmake_layout:test_folder=$work/consumer" -c tools.cmake.cmaketoolchain:user_presets= \
    -c "tools.cmake.cmaketoolchain:extra_variables={'GRADUS_PROCESSORS': 'x86-64-v3'}" \
    >"$work/create-$compiled.log" 2>&1 ||
    { tail -n 20 "$work/create-$compiled.log" >&2; echo "conan.sh: compiled=$compiled failed" >&2; exit 1; }
  echo "conan: compiled=$compiled: $(grep '^gradus ' "$work/create-$compiled.log")"
done
