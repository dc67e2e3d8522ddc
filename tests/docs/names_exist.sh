#!/usr/bin/env bash
# Whatever a page calls gr::NAME is a name in the headers, or in those that the tests share: a row that compares with
# PyTorch must not promise more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
headers=$(git ls-files -z -c -o --exclude-standard 'include/*.hpp' 'tests/support/*.hpp' | xargs -0 cat |
  tr -cs 'A-Za-z0-9_' '\n' | sort -u)
missing=$(grep -ohE '\bgr::([a-z_0-9]+::)*[a-z_0-9]+' README.md docs/*.md docs/guide/*.md | sed 's/.*:://' | sort -u |
  comm -23 - <(echo "$headers"))
[[ -z $missing ]] || { echo "pages name what no header has: $missing" | tr '\n' ' '; echo; exit 1; }
