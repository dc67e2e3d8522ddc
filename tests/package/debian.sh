#!/usr/bin/env bash
# debian.sh PACKAGES WORK: installs the Debian packages of the folder PACKAGES into a bare Debian, made by debootstrap
# in WORK, and uses them there: a network is compiled by pkg-config's flags and by CMake, the dynamic linker takes the
# library for this processor and for the levels below it, files of other flags are linked with it, and the command
# trains a model for a user who owns nothing but a home. Needs root, and Debian's mirror.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ ${1:-} != --inside ]]; then
  [[ $# -eq 2 && -d $1 ]] || { echo "usage: $0 PACKAGES WORK" >&2; exit 2; }
  fail() { echo "debian.sh: $*" >&2; exit 1; }
  [[ $(id -u) -eq 0 ]] || fail "needs root, for a chroot"
  command -v debootstrap >/dev/null || fail "needs debootstrap (apt-get install debootstrap)"
  packages=$1 work=$2
  mkdir -p "$work"
  if [[ ! -e $work/bare.tar ]]; then
    rm -rf "$work/bare"
    debootstrap --variant=minbase bookworm "$work/bare" >"$work/debootstrap.log" 2>&1 ||
      fail "debootstrap failed; see $work/debootstrap.log"
    tar -C "$work/bare" -cf "$work/bare.part" .
    mv "$work/bare.part" "$work/bare.tar"
  fi
  rm -rf "$work/bare"
  mkdir "$work/bare"
  tar -C "$work/bare" -xf "$work/bare.tar"
  mkdir "$work/bare/tmp/gradus"
  cp -r "$packages"/*.deb "$here"/{debian.sh,mlp.cpp,library.cpp} "$here/../odr/flags" "$work/bare/tmp/gradus"
  cp /etc/resolv.conf "$work/bare/etc/"
  # What is mounted there goes with the namespace.
  unshare -m bash -c 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$1" \
    /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
    bash /tmp/gradus/debian.sh --inside' bash "$work/bare"
  rm -rf "$work/bare"
  exit
fi

cd /tmp/gradus
TIMEFORMAT="%U s of user time"
say() { echo "debian: $*"; }
fail() { say "$@" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
install() {
  apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 "$@" >>apt.log 2>&1 ||
    { tail -n 5 apt.log >&2; fail "apt-get could not install $*"; }
}
apt-get update -q >apt.log 2>&1

install ./libgradus1_*.deb ./libgradus-dev_*.deb
say "installed" ./libgradus*.deb
install g++ pkgconf cmake make

read -ra flags <<<"$(pkg-config --cflags --libs gradus-compiled)"
say "pkg-config: $( { time g++ -std=c++20 -O2 mlp.cpp -o mlp "${flags[@]}"; } 2>&1)"
./mlp
g++ -std=c++20 -O2 library.cpp -o library "${flags[@]}"
./library
say "files of other flags: $(bash flags/check.sh g++ /usr/include "${flags[@]}")"
read -ra flags <<<"$(pkg-config --cflags --libs gradus)"
say "pkg-config, headers alone: $( { time g++ -std=c++20 -O2 -march=native mlp.cpp -o native "${flags[@]}"; } 2>&1)"
./native
echo 'int main() { return gradus::version().empty() ? 1 : 0; }' >single.cpp
say "one header: $( { time g++ -std=c++20 -O2 -include /usr/include/gradus/single/gradus.hpp single.cpp -o single \
  -pthread; } 2>&1)"
./single

cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(gradus 0.1 REQUIRED)
add_executable(consumer mlp.cpp)
target_link_libraries(consumer PRIVATE gradus::compiled)
if(PRECOMPILED)
  target_precompile_headers(consumer PRIVATE <gradus/gradus.hpp>)
endif()
END
for precompiled in OFF ON; do
  cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DPRECOMPILED=$precompiled >cmake.log
  say "CMake, precompiled headers $precompiled: $( { time cmake --build build >>cmake.log; } 2>&1)"
  build/consumer
done
touch mlp.cpp
say "CMake, the source again: $( { time cmake --build build >>cmake.log; } 2>&1)"

# The libraries export the same names, and each processor's runs where the processor allows it.
linker=$(readlink -f /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 2>/dev/null | head -n 1)
mapfile -t folders < <(dirname /usr/lib/*/libgradus.so.1 /usr/lib/*/glibc-hwcaps/*/libgradus.so.1)
names() { nm -D --defined-only "$1/libgradus.so.1" | awk '{ print $2, $3 }' | sort; }
for folder in "${folders[@]}"; do
  diff <(names "${folders[0]}") <(names "$folder") >/dev/null || fail "$folder exports other names"
done
mapfile -t levels < <("$linker" --help | sed -n 's/^  *\(x86-64-v[0-9]\) (supported.*/\1/p')
library_of() { LD_TRACE_LOADED_OBJECTS=1 "$@" ./mlp | awk '/libgradus/ { print $3 }'; }
for level in "${levels[@]}" ""; do
  best=$(library_of "$linker" --glibc-hwcaps-mask "${level:-none}")
  [[ $best == */${level:+glibc-hwcaps/$level/}libgradus.so.* && (-n $level || $best != *hwcaps*) ]] ||
    fail "for the processor '$level' the dynamic linker takes $best"
  "$linker" --glibc-hwcaps-mask "${level:-none}" ./mlp >mlp.txt
  say "$best: $(cat mlp.txt)"
done
say "this processor takes $(library_of "$linker")"

install ./gradus_*.deb
say "installed" ./gradus_*.deb
useradd -m reader
for i in {1..400}; do echo "Line $i: the quick brown fox jumps over the lazy dog."; done >/home/reader/text.txt
su reader -c 'cd && gradus --version && gradus train --data text.txt --steps 20 --layers 1 --width 32 --heads 1 \
  --context 32 --batch 4 --out run' >train.log 2>&1 || { tail -n 5 train.log >&2; fail "gradus train failed"; }
say "gradus train: $(grep -E 'step +20|compiled' train.log | tail -n 2 | tr '\n' ';')"
[[ -n $(find /home/reader/.cache/gradus/train -name gpt_train) ]] || fail "nothing was compiled in the user's cache"
say works
