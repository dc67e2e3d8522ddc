#!/usr/bin/env bash
# Writes <gradus/gradus.hpp> and all that it includes of gradus as one file, for projects that want a single header.
#
#   scripts/amalgamate.sh [FOLDER]    writes FOLDER/gradus/gradus.hpp (default: build/single); compile with -IFOLDER
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  -*) echo "amalgamate.sh: unknown argument '$1'; --help says what there is" >&2; exit 2 ;;
esac
folder=${1:-$root/build/single}
[[ $# -le 1 ]] || { echo "amalgamate.sh: one folder, not $#" >&2; exit 2; }
mkdir -p "$folder/gradus"
to=$folder/gradus/gradus.hpp

# Each file stands where it is included first. One that is first included where a condition holds, and needed where it
# does not, would be missing: that is an error.
awk -v root="$root/include/gradus" '
  function fail(text) { print "amalgamate.sh: " text > "/dev/stderr"; failed = 1; exit 1 }
  function resolved(folder, name,    parts, n, i, out, depth) {
    n = split(folder "/" name, parts, "/")
    depth = 0
    for (i = 1; i <= n; ++i) {
      if (parts[i] == "." || parts[i] == "") continue
      if (parts[i] == "..") --depth
      else out[++depth] = parts[i]
    }
    name = out[1]
    for (i = 2; i <= depth; ++i) name = name "/" out[i]
    return name
  }
  function emit(file, conditions,    line, folder, name, own, seen, opened) {
    if (file in written) {
      if (written[file] > conditions) fail(file " is first included under a condition, and later without one")
      return
    }
    written[file] = conditions
    folder = file
    if (!sub("/[^/]*$", "", folder)) folder = ""
    own = 0
    print "// ---- " file
    while ((opened = (getline line < (root "/" file))) > 0) {
      if (line ~ /^#pragma once/) continue
      if (line ~ /^#ifndef GRADUS_COMPILED/) { seen = 1; continue }  # one file holds all
      if (seen && line ~ /^#endif/) { seen = 0; continue }
      if (line ~ /^# *include "/) {
        name = line
        sub(/^[^"]*"/, "", name)
        sub(/".*/, "", name)
        if (name ~ /[^A-Za-z0-9_.\/]/) print line  # no file: the text of an error
        else emit(resolved(folder, name), conditions + own)
        continue
      }
      if (line ~ /^# *if/) ++own
      if (line ~ /^# *endif/) --own
      print line
    }
    if (opened < 0) fail("no file " root "/" file)
    close(root "/" file)
  }
  BEGIN {
    print "// gradus as one file, written by scripts/amalgamate.sh from include/gradus/gradus.hpp."
    print "#pragma once"
    print "#ifdef GRADUS_COMPILED"
    print "#error \"gradus as one file holds all functions: compile without GRADUS_COMPILED\""
    print "#endif"
    emit("gradus.hpp", 0)
    exit failed
  }' >"$to.part"
mv "$to.part" "$to"
echo "$to: $(wc -l <"$to") lines"
