#!/usr/bin/env bash
# The reference is made without a warning (scripts/docs.sh), and its index has every name of docs/guide/functions.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! command -v doxygen >/dev/null; then echo "doxygen is missing: apt-get install doxygen"; exit 77; fi
scripts/docs.sh
indexed=$(sed -nE "s/^ *\['[^']*',\['([^']*)',.*/\1/p" build/docs/html/search/*.js | sort -u)
[[ $(wc -l <<<"$indexed") -ge 1000 ]] || { echo "the index has only $(wc -l <<<"$indexed") names"; exit 1; }
# The first column of the tables: `f(x)`, `nn::layer<X>`, `object.member(x)`.
names=$(awk -F'|' '/^\|/ { print $2 }' docs/guide/functions.md | grep -oE '`[^`]+`' | tr -d '`' |
  sed -nE 's/^([a-z_]+(\(\))?[.]|[.]|nn::)*([a-z_0-9]+)([(<{].*)?$/\3/p' | sort -u)
[[ $(wc -l <<<"$names") -ge 100 ]] || { echo "functions.md has only $(wc -l <<<"$names") names"; exit 1; }
missing=$(comm -13 <(echo "$indexed") <(echo "$names"))
[[ -z $missing ]] || { echo "build/docs/html has no entry of" $missing; exit 1; }
echo "$(wc -l <<<"$names") names of functions.md are in the index"
