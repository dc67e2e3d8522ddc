#!/usr/bin/env bash
# Holds README.md and docs/**/*.md against the programs they quote, and looks up their relative links.
#
#   check_snippets.sh [--fix] [ROOT]    --fix writes the regions of the programs into the pages; ROOT is the repository
#
# Each ```cpp block follows a comment that says where its code comes from:
#   <!-- snippet: FILE#NAME -->   it is what stands between `// [NAME]` and `// [/NAME]` in tests/docs/FILE, which is
#                                 compiled and run; where a name has several such regions, they follow one another
#   <!-- excerpt: PATH -->        it is a run of whole lines of PATH
# and a block after this one holds whatever the case expects the compiler to say (a test of its own checks that it
# does):
#   <!-- message: CASE -->        a case of tests/compile_fail/cases; or `CASE g++`, `CASE clang++` with the lines for
#                                 that compiler
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fix=0
if [[ ${1:-} == --fix ]]; then fix=1; shift; fi
root=$(cd "${1:-$here/../..}" && pwd)
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

problems=0 blocks=0 links=0
problem() {
  printf '%s\n' "$*"
  problems=$((problems + 1))
}

# region FILE NAME: the code, without the indentation of its first marker.
region() {
  awk -v begin="// [$2]" -v end="// [/$2]" '
    { line = $0; sub(/^ +/, "", line) }
    line == begin { if (inside) exit 2; inside = 1; indent = length($0) - length(line); found = 1; next }
    line == end { if (!inside) exit 2; inside = 0; next }
    inside && line !~ /^\/\/ \[\/?[A-Za-z0-9_]+\]$/ {
      print substr($0, (substr($0, 1, indent) ~ /^ *$/ ? indent : 0) + 1)
    }
    END { if (!found || inside) exit 2 }' "$1"
}

# is_excerpt PATH, with the block on stdin: true if PATH has these lines one after another, with any indentation in
# common.
is_excerpt() {
  awk '
    function leading(s) { match(s, /^ */); return RLENGTH }
    NR == FNR { block[NR] = $0; n = NR; next }
    { text[++m] = $0 }
    END {
      for (i = 1; i + n - 1 <= m; ++i) {
        shift = leading(text[i]) - leading(block[1])
        for (j = 1; j <= n && shift >= 0; ++j) {
          wanted = block[j] == "" ? "" : sprintf("%" shift "s", "") block[j]
          if (text[i + j - 1] != wanted) break
        }
        if (j > n) exit 0
      }
      exit 1
    }' - "$1"
}

# check_block PAGE LINE LANGUAGE TAG BODY: judges one block; with --fix, sets `body` to what it should be.
check_block() {
  local at="$1:$2" language=$3 kind=${4%%:*} source=${4#*: } text=$5 file name expected line
  case $kind in
    snippet)
      blocks=$((blocks + 1))
      file=tests/docs/${source%%#*} name=${source#*#}
      if [[ $source != *'#'* ]]; then
        problem "$at: 'snippet: $source' names no region; write 'snippet: FILE#NAME'"
        return
      fi
      if [[ ! -f $file ]]; then problem "$at: there is no $file to take the snippet from"; return; fi
      if ! expected=$(region "$file" "$name"); then
        problem "$at: $file has no region '$name': it begins with '// [$name]' and ends with '// [/$name]'"
        return
      fi
      body=$expected
      if [[ $fix -eq 0 && $text != "$expected" ]]; then
        problem "$at: the block differs from region '$name' of $file (- page, + program);" \
          "change the program, then run tests/docs/check_snippets.sh --fix"
        printf '%s\n' "$text" >"$work/page"
        printf '%s\n' "$expected" | diff "$work/page" - |
          sed -n -e 's/^< */  - &/p' -e 's/^> */  + &/p' | sed 's/^\(  [-+] \)[<>] \{0,1\}/\1/' || true
      fi ;;
    excerpt)
      blocks=$((blocks + 1))
      if [[ ! -f $source ]]; then problem "$at: there is no $source to take the excerpt from"; return; fi
      if ! is_excerpt "$source" <<<"$text"; then
        problem "$at: $source has no such lines one after another; copy them again"
      fi ;;
    message)
      blocks=$((blocks + 1))
      file=$(grep -slx "// case: ${source%% *}" tests/compile_fail/cases/*.cpp || true)
      if [[ -z $file ]]; then
        problem "$at: there is no case ${source%% *} in tests/compile_fail/cases to expect a message of"; return
      fi
      name=""
      if [[ $source == *' '* ]]; then name=${source##* }; fi
      expected=$(awk -v name="${source%% *}" '/^\/\/ case: / { on = $3 == name } on' "$file" |
        sed -nE -e 's|^// expect: ?(.*)$|\1|p' ${name:+-e "s|^// expect\(${name//+/\\+}\): ?(.*)$|\1|p"})
      # g++ quotes names by characters of several bytes where the locale is UTF-8, which a pattern's '.' does not match
      # in another one.
      text=${text//‘/\'} text=${text//’/\'}
      while IFS= read -r line; do
        if ! grep -qE -e "$line" <<<"$text"; then
          problem "$at: the message does not contain what $file expects: $line"
        fi
      done <<<"$expected" ;;
    *)
      if [[ ($language == cpp || $language == c++) && ($1 == README.md || $1 == docs/*) ]]; then
        problem "$at: a C++ block without '<!-- snippet: FILE#NAME -->' or '<!-- excerpt: PATH -->' above it:" \
          "nothing keeps it true"
      fi ;;
  esac
}

# check_page PAGE: its blocks, and the links outside them.
check_page() {
  local page=$1 line number=0 fence="" language="" start=0 tag="" text="" body="" target outside=""
  local fenced='^(```+)([A-Za-z+]*)[[:space:]]*$' tagged='^<!-- *((snippet|excerpt|message): .*[^ ]) *-->$'
  local linked='\]\(([^)[:space:]]+)( "[^"]*")?\)'
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    if [[ -n $fence ]]; then
      if [[ $line == "$fence" ]]; then
        body=${text%$'\n'}
        check_block "$page" "$start" "$language" "$tag" "$body"
        if [[ $fix -eq 1 ]]; then [[ -z $body ]] || printf '%s\n' "$body" >&3; printf '%s\n' "$line" >&3; fi
        fence="" tag="" text=""
      else
        text+=$line$'\n'
      fi
      continue
    fi
    if [[ $fix -eq 1 ]]; then printf '%s\n' "$line" >&3; fi
    if [[ $line =~ $fenced ]]; then
      fence=${BASH_REMATCH[1]} language=${BASH_REMATCH[2]} start=$number text=""
      continue
    fi
    # What a formatter for C++ makes of a page: '```const cpp', '#Title', '<!--snippet: a.cpp #sum-->'.
    if [[ $line == *'```'*[[:space:]]* || $line =~ ^[[:space:]]*#+[[:alnum:]] ||
      $line =~ ^[[:space:]]*\<!--(snippet|excerpt|message) ]]; then
      problem "$page:$number: no heading, block or tag, though it looks like one: $line"
    fi
    if [[ $line =~ $tagged ]]; then tag=${BASH_REMATCH[1]}; continue; fi
    if [[ -n ${line// /} ]]; then
      if [[ -n $tag ]]; then problem "$page:$number: '<!-- $tag -->' must be followed by a block"; fi
      tag=""
    fi
    outside=$(sed 's/`[^`]*`//g' <<<"$line")  # code may look like a link
    while [[ $outside =~ $linked ]]; do
      target=${BASH_REMATCH[1]}
      outside=${outside#*"${BASH_REMATCH[0]}"}
      case $target in '#'* | *://* | mailto:*) continue ;; esac
      links=$((links + 1))
      target=${target%%#*}
      if [[ $target == /* ]]; then problem "$page:$number: link to $target: write it relative to the page"; continue; fi
      if [[ ! -e $(dirname "$page")/$target ]]; then problem "$page:$number: link to $target: there is no such file"; fi
    done
  done <"$page"
  if [[ -n $fence ]]; then problem "$page:$start: the block that begins here has no end"; fi
}

found=$(find *.md docs -type f -name '*.md' 2>/dev/null | sort || true)
[[ -n $found ]] || { echo "check_snippets.sh: no page under $root" >&2; exit 2; }
mapfile -t pages <<<"$found"
for page in "${pages[@]}"; do
  if [[ $fix -eq 0 ]]; then check_page "$page"; continue; fi
  check_page "$page" 3>"$work/new"
  if ! cmp -s "$work/new" "$page"; then cat "$work/new" >"$page"; echo "wrote $page"; fi
done
echo "${#pages[@]} pages, $blocks blocks, $links links, $problems problems"
[[ $problems -eq 0 ]]
