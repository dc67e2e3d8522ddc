#!/usr/bin/env bash
# Checks that no file has lines of more than 120 columns and that the headers' comments can be read alone, and runs
# clang-tidy, with the checks of .clang-tidy, over every header (each through its one-line program) and test.
#
#   scripts/lint.sh [REGEX]     only files whose path matches, such as ops/softmax or tests/unit
#   scripts/lint.sh --columns   the checks without clang-tidy, of all files
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

if [[ ${1:-} == -h || ${1:-} == --help ]]; then sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0; fi
[[ $# -le 1 && (${1:-} != -* || $1 == --columns) ]] ||
  { echo "usage: scripts/lint.sh [REGEX | --columns]" >&2; exit 2; }
pattern=${1:-.}
if [[ $pattern == --columns ]]; then pattern=.; fi

# Names every line of more than 120 columns. What cannot be broken may be longer: tables and code blocks of a page, what
# a case of tests/compile_fail expects, and a line with a string or a word of more than 100. Data is not looked at.
check_columns() {
  git ls-files -z -c -o --exclude-standard |
    { grep -zvE '^tests/(data|fuzz/corpus)/|\.(svg|png|json|safetensors)$' || true; } |
    { grep -zE -e "$pattern" || true; } |
    xargs -0 -r awk '
      # Columns, not bytes: of a character in UTF-8 its first byte counts.
      function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }
      function holds(text, separator, step,   parts, count, i) {
        count = split(text, parts, separator)
        for (i = step; i <= count; i += step) if (columns(parts[i]) > 100) return 1
        return 0
      }
      FNR == 1 { fenced = 0 }
      FILENAME ~ /\.md$/ && /^ *```/ { fenced = !fenced }
      columns($0) <= 120 { next }
      FILENAME ~ /\.md$/ && (fenced || /^ *\|/ || /^    /) { next }
      FILENAME ~ /^tests\/compile_fail\/cases\// && /^\/\/ expect/ { next }
      holds($0, " ", 1) || holds($0, "\"", 2) || holds($0, "\047", 2) { next }
      { printf "%s:%d: has %d columns, and may have 120\n", FILENAME, FNR, columns($0); bad = 1 }
      END { exit bad }' >&2
}
# Names every variable in the arithmetic of a script that its line '# numbers: NAME...' does not name: bash evaluates
# what such a variable holds, and runs the commands in it. Who adds a name has checked where its values come from.
check_arithmetic() {
  awk '
    FNR == 1 { delete known; known["SECONDS"] }
    /^# numbers: / { for (i = 3; i <= NF; ++i) known[$i] }
    /^ *#/ { next }
    {
      sub(/ # .*/, "")
      rest = $0
      while (match(rest, /\(\([^"]*\)\)|[^ ]+ -(eq|ne|lt|le|gt|ge) [^ ]+/)) {
        part = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        gsub(/\$\([a-z][^()]*\)|"[^"]*"|\$\{#[^}]*\}|\$#|[0-9]+#|-(eq|ne|lt|le|gt|ge) /, " ", part)  # counts, commands
        while (match(part, /[A-Za-z_][A-Za-z_0-9]*|\$\{?[0-9!]/)) {
          name = substr(part, RSTART, RLENGTH)
          part = substr(part, RSTART + RLENGTH)
          if (name in known) continue
          printf "%s:%d: arithmetic on %s, which no line \047# numbers:\047 names\n", FILENAME, FNR, name
          bad = 1
        }
      }
    }
    END { exit bad }' scripts/*.sh >&2
}
# Names every comment of a public name, in include, that cannot be understood alone.
check_words() {
  git ls-files -z -c -o --exclude-standard include | { grep -zE -e "$pattern" || true; } | xargs -0 -r awk '
    function report(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; bad = 1 }
    FNR == 1 || !/\/\/\// { last = "" }
    !sub(/.*\/\/\//, "") { next }
    /^<? *The same[^a-z]/ && (/^</ || last == "") { report("say what it is or does, not \047The same\047") }
    match(last $0, /(^|[^a-z])([Tt]hat|[Tt]hose) +of([^a-z]|$)/) { report("repeat the noun, not \047that of\047") }
    { last = match($0, /[Tt]h(at|ose)$/) ? substr($0, RSTART) : " " }
    END { exit bad }' >&2
}
check_columns && check_arithmetic && check_words || exit 1
if [[ ${1:-} == --columns ]]; then echo "lint.sh: no line is too long, and comments can be read alone"; exit 0; fi

gradus_setup lint clang
# clang-tidy reads clang's command lines, so the clang preset is the one to take them from.
mkdir -p build/clang
if ! cmake --preset clang >build/clang/configure.log 2>&1; then
  cat build/clang/configure.log >&2
  echo "lint.sh: configuring failed" >&2
  exit 1
fi
# A source that several programs are made of is looked at once, as in the first of them.
mkdir -p build/clang/lint
awk '
  /^{/ { entry = "" }
  /^[{} ]/ { entry = entry $0 "\n" }
  /^ *"file"/ { file = $0 }
  /^}/ {
    if (!(file in seen)) { sub(/},?\n$/, "}", entry); printf "%s%s", (n++ ? ",\n" : "[\n"), entry }
    seen[file] = 1
  }
  END { print "\n]" }' build/clang/compile_commands.json >build/clang/lint/compile_commands.json
sources=$(sed -n 's/^ *"file": "\(.*\.cpp\)",*$/\1/p' build/clang/lint/compile_commands.json |
  sort -u | grep -E -e "$pattern" || true)
[[ -n $sources ]] || { echo "lint.sh: no source matches '$pattern'" >&2; exit 2; }
echo "lint.sh: $(wc -l <<<"$sources") sources"
{ tr '\n' '\0' <<<"$sources" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/clang/lint; } 2>&1 |
  { grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header-filter' || true; }
echo "lint.sh: clean"
