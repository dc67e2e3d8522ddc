#!/usr/bin/env bash
# check_single_header.sh COMPILER FOLDER LESSON REGEX: passes if the lesson, compiled against gradus as one file in
# FOLDER and nothing else of it, prints a line that matches.
set -euo pipefail
[[ $# -eq 4 ]] || { echo "usage: $0 COMPILER FOLDER LESSON REGEX" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rm -rf "$2"
mkdir -p "$2"
"$here/../scripts/amalgamate.sh" "$2"
cp "$here/$3.cpp" "$2"
cd "$2"
"$1" -std=c++20 -O2 -I. "$3.cpp" -o "$3" -pthread
bash "$here/check_lesson.sh" "$PWD/$3" "$4"
