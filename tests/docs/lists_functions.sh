#!/usr/bin/env bash
# docs/guide/functions.md names every function that a user calls: those of namespace gradus in the headers below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
page=docs/guide/functions.md
shopt -s nullglob
headers=(include/gradus/ops/*/{[!c]*,c[!pu]*}.hpp include/gradus/tensor/{creation,random,print}.hpp
  include/gradus/autodiff/{{apply,backward,custom_op},checkpoint/{checkpoint,chain}}.hpp
  include/gradus/nn/*.hpp include/gradus/optim/*.hpp include/gradus/data/*.{hpp,ipp})
# A row GRADUS_UNARY(name) declares a function. A line that opens a namespace within gradus ends with a brace, one that
# closes it with its name.
names=$(awk '
  FNR == 1 { inner = 0 }
  /^namespace gradus \{$/ { next }
  /^namespace .*\{$/ { inner++ }
  /^\}  \/\/ namespace / && !/^\}  \/\/ namespace gradus$/ { inner-- }
  sub(/^GRADUS_UNARY\(/, "") { sub(/\)$/, ""); print; next }
  inner == 0 && /\(/ && !/;$/ &&
  /^(GRADUS_OF_BUILD |GRADUS_IMPL |constexpr|inline|template|std::|tensor<|bool|void|double|auto|index_t)/ {
    text = $0; sub(/\(.*/, "", text); sub(/.*[ &*]/, "", text)
    if (text ~ /^[a-z_0-9]+$/ && text !~ /^(requires|operator|constexpr)/) print text
  }' "${headers[@]}" | sort -u)
[[ $(wc -w <<<"$names") -ge 50 ]] ||
  { echo "lists_functions.sh: only these were found in the headers: $names" >&2; exit 2; }
status=0
for name in $names; do
  if ! grep -qE "\`[^\`]*\b$name\b[^\`]*\`" "$page"; then echo "$page does not name $name"; status=1; fi
done
exit $status
