#!/usr/bin/env bash
# check.sh FAMILY COMPILER FILE @FLAGS PRECOMPILED TWIN: passes if the twins in FILE compile together (unless TWIN is
# no-twin), and the compiler says of each mistake what its `// expect:` lines ask for, g++ in at most 15 lines, and each
# compiler in at most N lines where the case says `// expect-lines: N`. FAMILY is g++ or clang++. PRECOMPILED is the
# .gch of a header beside it, or '' to do without. CMakeLists.txt says what FILE looks like.
set -euo pipefail
[[ $# -eq 6 && -f $3 ]] || {
  echo "usage: $0 g++|clang++ COMPILER FILE.cpp @FLAGS PRECOMPILED.hpp.gch twin|no-twin" >&2
  exit 2
}
family=$1 compiler=$2 file=$3 flags=$4 precompiled=$5 twin=$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

arguments=("$flags" -fsyntax-only -fmessage-length=0 -fdiagnostics-color=never -w)
if [[ $family == clang++ ]]; then arguments+=(-ferror-limit=0); fi
if [[ -f $precompiled ]]; then
  if [[ $family == clang++ ]]; then
    arguments+=(-include-pch "$precompiled")
  else
    arguments+=(-include "${precompiled%.gch}")
  fi
fi

# compile mistake|twin: FILE with that half of each case, a namespace, on the lines where FILE has it.
compile() {
  awk -v wanted="$1" -v file="$file" '
    BEGIN { print "#line 1 \"" file "\"" }
    NR == FNR { if (/^\/\/ case: /) name = $3; if (/^\/\/ mistake$/) shared[name] = 1; next }
    /^\/\/ case: / { printf "%snamespace %s {\n", inside ? "} " : "", $3; inside = 1
                     part = shared[$3] ? wanted : "mistake"; next }
    /^\/\/ (mistake|twin)$/ { part = $2; print ""; next }
    { print !inside || part == wanted ? $0 : "" }
    END { print inside ? "}" : "" }' "$file" "$file" >"$work/$1.cpp"
  "$compiler" "${arguments[@]}" -I "$(dirname "$file")" "$work/$1.cpp" 2>&1
}

if [[ $twin == twin ]] && ! output=$(compile twin); then
  printf '%s: the twins must compile with %s, and do not:\n%s\n' "$file" "$family" "$output"
  exit 1
fi
if output=$(compile mistake); then
  echo "$file: the mistakes must not compile with $family, and do"
  exit 1
fi
if grep -qiE 'internal compiler error|PLEASE submit a bug report' <<<"$output"; then
  printf '%s: %s crashed:\n%s\n' "$file" "$family" "$output"
  exit 1
fi

# What is said of each case, in a file of its name. A message begins where its places do, or with its error, and
# belongs to the case whose line it names first, or whose namespace; without either, to that of the message before.
awk -v folder="$work/" -v file="$file" '
  NR == FNR { if (/^\/\/ case: /) cases[name = $3]; of[FNR] = name; next }
  function flush() { if (text != "" && owner != "") printf "%s", text >>(folder owner); text = ""; found = error = 0 }
  /^In file included from|^[^ ]+: (In|At) / { if (said) flush(); said = 0 }
  /: (error|note): / { said = 1 }
  /: error: / { if (error) flush(); error = 1 }
  { text = text $0 "\n"
    at = index($0, file ":")
    if (at && !found && split(substr($0, at + length(file) + 1), rest, ":") && of[rest[1]] != "") {
      owner = of[rest[1]]; found = 1
    }
    for (name in cases) if (!found && index($0, name "::")) owner = name
  }
  END { flush() }' "$file" - <<<"$output"

failed=0
while read -r name; do
  block=$(awk -v name="$name" '/^\/\/ case: / { on = $3 == name } on && /^\/\/ expect/' "$file")
  # Lines for this compiler: `// expect: REGEX` and `// expect(FAMILY): REGEX`.
  wanted=$(sed -nE -e 's|^// expect: ?(.*)$|\1|p' -e "s|^// expect\(${family//+/\\+}\): ?(.*)$|\1|p" <<<"$block")
  said=$(cat "$work/$name" 2>/dev/null || true)
  problems=""
  if [[ -z $wanted ]]; then
    problems+="no '// expect: REGEX' line for $family: say what the message must contain"$'\n'
  fi
  while read -r expectation; do
    if ! grep -qE -e "$expectation" <<<"$said"; then problems+="$family does not say: $expectation"$'\n'; fi
  done <<<"$wanted"
  lines=$(grep -vcE '^In file included from .*/all\.hpp:' <<<"$said" || true)  # users have no precompiled header
  enough=$(sed -nE 's|^// expect-lines: ([0-9]+)$|\1|p' <<<"$block")
  if [[ -z $enough && $family == g++ ]]; then enough=15; fi
  if [[ -n $enough && $lines -gt $enough ]]; then
    problems+="$family says it in $lines lines; $enough are enough"$'\n'
  fi
  if [[ -n $problems ]]; then
    printf '%s: %s: %sIt says:\n%s\n' "$file" "$name" "$problems" "$said"
    failed=1
  fi
done < <(sed -nE 's|^// case: (.*)$|\1|p' "$file")
exit $failed
