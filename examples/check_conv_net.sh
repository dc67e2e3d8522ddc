#!/usr/bin/env bash
# check_conv_net.sh PROGRAM: lesson 14 learns from IDX files, and says in one line what is wrong with others.
set -euo pipefail
[[ $# -eq 1 ]] || { echo "usage: $0 PROGRAM" >&2; exit 2; }
program=$1
source "$(cd "$(dirname "$0")" && pwd)/../tests/cli/support.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# idx EXTENT...: the head of an IDX file of bytes
idx() {
  printf '\x00\x00\x08'
  printf "\\x$(printf %02x $#)"
  for e in "$@"; do printf "\\x$(printf '%02x' $((e >> 24)))\\x$(printf '%02x' $((e >> 16 & 255)))\\x$(
    printf '%02x' $((e >> 8 & 255)))\\x$(printf '%02x' $((e & 255)))"; done
}
bytes() { head -c "$1" <(yes "$2" | tr -d '\n'); }
{ idx 66 28 28; bytes $((66 * 784)) 'a shape, or another one'; } >images
{ idx 66; bytes 66 $'\001\002\003'; } >labels
{ idx 66 32 32; bytes $((66 * 1024)) x; } >large
{ idx 66; bytes 66 $'\001\002\013'; } >eleven
{ idx 65; bytes 65 $'\001'; } >fewer

succeeds "$program" images labels images labels
has out 'accuracy [01]\.[0-9]+ on 66 pictures that it has not seen'
refuses 1 '^error: large: holds 66 x 32 x 32 bytes; pictures are N x 28 x 28$' "$program" large labels images labels
refuses 1 '^error: labels: holds 66 bytes; pictures are N x 28 x 28$' "$program" images labels labels labels
refuses 1 '^error: eleven: label 2 is 11; labels are 0 to 9$' "$program" images eleven images labels
refuses 1 '^error: .*66 inputs and 65 targets' "$program" images fewer images labels
refuses 1 '^error: .*missing' "$program" missing labels images labels
refuses 1 '^error: usage: 14_conv_net ' "$program" images
[[ $failures -eq 0 ]]
