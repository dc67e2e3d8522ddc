#!/usr/bin/env bash
# tokens.sh TOKENS WORK: gpt_tokens as a user meets it, in the folder WORK, which is emptied.
set -euo pipefail
[[ $# -eq 2 ]] || { echo "usage: $0 TOKENS WORK" >&2; exit 2; }
tokens=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
source "$here/support.sh"

# make_new COMMAND...: it succeeds, beginning without the folder `new`
make_new() { rm -rf new; succeeds "$@"; }
# writes_nothing STATUS REGEX COMMAND...: it is refused, and leaves no folder
writes_nothing() {
  refuses "$@"
  [[ -z $(compgen -G 'new*') ]] || { wrong "something was written: $*"; rm -rf new*; }
}
# size FILE BYTES
size() { [[ $(stat -c %s "$1") -eq $2 ]] || wrong "$1 has $(stat -c %s "$1") bytes, not $2"; }
# shows FILE BYTES: the file's numbers of 16 bits
shows() { [[ $(od -An -v -tu2 "$1" | xargs) == "$2" ]] || wrong "$1 holds $(od -An -v -tu2 "$1" | xargs), not $2"; }

for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text
printf 'ab' >first
printf 'cd\n' >second

# Bytes: joined by line ends, the last share for validation, cut behind a line.
make_new "$tokens" --data text --out new
has out 'train: 7920 tokens of 7920 bytes \(1.00 bytes a token\) in 1 file'
has out 'vocabulary 256; wrote new'
size new/train.bin 15840
size new/val.bin 1760
make_new "$tokens" --data first second --validation 0 --out new/
shows new/train.bin "97 98 10 99 100 10"
[[ ! -e new/val.bin && ! -e new/tokenizer.json ]] || wrong "more than train.bin was written"
# A text of one line is cut within it.
{ head -c 5000 /dev/zero | tr '\0' a; echo; } >line
make_new "$tokens" --data line --out new
has out 'validation: 501 tokens of 501 bytes'
make_new "$tokens" --data text --validation-data first second --out new
has out 'train: 8800 tokens'
shows new/val.bin "97 98 10 99 100 10"

# What is no text, and a stack that is too small, are refused.
rm -rf new
printf '\x1f\x8b\x08\x00' >packed
writes_nothing 1 'packed: is compressed by gzip; unpack it first' "$tokens" --data packed --out new
writes_nothing 1 'the stack is limited to 200 KiB, and 256 are needed' \
  bash -c 'ulimit -S -s 200; exec "$@"' - "$tokens" --data text --out new

# A BPE that is learned, and read again: the same shards.
make_new "$tokens" --data text --out new --train 280
has out 'vocabulary 280'
mv new learned
make_new "$tokens" --data text --out new --tokenizer learned/tokenizer.json
for file in train.bin val.bin tokenizer.json; do cmp "new/$file" "learned/$file" || wrong "$file differs"; done
# A text is encoded in pieces of 1 MiB, and has the tokens of the whole, as a tokenizer that rewrites texts takes it.
for _ in $(seq 150); do cat text "$here/../../README.md"; done >many
make_new "$tokens" --data many --out new --tokenizer learned/tokenizer.json
mv new pieces
mkdir whole
sed 's/"normalizer": *null/"normalizer": {"type": "Replace", "pattern": {"String": "nowhere"}, "content": ""}/' \
  learned/tokenizer.json >whole/tokenizer.json
! cmp -s learned/tokenizer.json whole/tokenizer.json || wrong "no normalizer was put in"
make_new "$tokens" --data many --out new --tokenizer whole/tokenizer.json
for file in train.bin val.bin; do cmp "new/$file" "pieces/$file" || wrong "$file differs between pieces and whole"; done
make_new "$tokens" --data first second --validation 0 --out new --tokenizer learned/tokenizer.json
shows new/train.bin "64 65 279 66 67 198"
make_new "$tokens" --data first second --validation 0 --out new --tokenizer learned/tokenizer.json --separator ''
shows new/train.bin "64 65 66 67 198"
make_new "$tokens" --data text --out new --train 60000
has out 'the text gave [0-9]+ tokens, not 60000'

# Tokenizers of other kinds: what ends a text separates texts.
make_new "$tokens" --data first second --validation 0 --out new --train 20 --kind unigram
shows new/train.bin "3 4 5 1 3 6 7"
grep -q '"type": "Unigram"' new/tokenizer.json || wrong "this is no unigram model"
make_new "$tokens" --data first second --validation 0 --out new --train 20 --kind wordpiece
has out 'the text gave 11 tokens, not 20'
shows new/train.bin "5 9 3 7 10"

# A tokenizer alone.
rm -rf new
succeeds "$tokens" --data text --out new.json --train 30 --kind wordpiece --characters 20
has out 'vocabulary 30; wrote new.json'
succeeds "$tokens" --data text --validation 0 --out new --tokenizer new.json
refuses 1 'new.json: is there already; name a new file' "$tokens" --data text --out new.json --train 60 --kind wordpiece
rm new.json

# More than 65536 tokens: 32 bits.
for _ in 1 2; do seq 100000 199999 | tr '\n' ' '; done >numbers
make_new "$tokens" --data numbers --validation 0 --out new --train 70000
has out 'vocabulary 70000'
[[ $(od -An -N8 -td4 new/train.bin | xargs) == "20240801 7" ]] || wrong "the header is $(od -An -N8 -td4 new/train.bin)"
od -An -v -j1024 -w4 -td4 new/train.bin | awk '$1 > 65535 { ++wide } END { exit !wide }' || wrong "no token has 17 bits"
mv new wide
make_new "$tokens" --data numbers --validation 0 --out new --tokenizer wide/tokenizer.json
cmp new/train.bin wide/train.bin || wrong "the shards differ"

rm -rf new
writes_nothing 2 '--separator: bytes have no such token' \
  "$tokens" --data first second --out new --separator x

# Shards, with llm.c's header: 1024 bytes each.
make_new "$tokens" --data text --out new --layout llm.c --shard-tokens 5000
size new/train_000000.bin 11024
size new/train_000001.bin 6864
size new/val_000000.bin 2784
[[ $(od -An -N12 -td4 new/train_000001.bin | xargs) == "20240520 1 2920" ]] ||
  wrong "the header is $(od -An -N12 -td4 new/train_000001.bin)"

# Bytes that are no UTF-8.
printf 'caf\351 caf\351\n' >latin
make_new "$tokens" --data latin --validation 0 --out new --tokenizer learned/tokenizer.json
has out '2 places had bytes that are no UTF-8, which were kept'
make_new "$tokens" --data latin --validation 0 --out new --tokenizer learned/tokenizer.json --broken-utf8 replace
has out 'which were replaced'

# An empty folder may be there; a pipe is a text.
rm -rf new && mkdir new
"$tokens" --data <(cat text) --out new >out 2>err || wrong "a pipe: $(cat err)"
size new/train.bin 15840

rm -rf new
: >empty
echo '{"model": 1}' >bad.json
writes_nothing 2 '--data is required' "$tokens" --out new
writes_nothing 2 '--out is required' "$tokens" --data text
writes_nothing 2 "--out must be the name of a folder" "$tokens" --data text --out ''
writes_nothing 2 '--layout must be nanogpt or llm.c, not numpy' "$tokens" --data text --out new --layout numpy
writes_nothing 2 '--validation must be at least 0 and below 1, not 1' "$tokens" --data text --out new --validation 1
writes_nothing 2 '--validation must be at least 0 and below 1, not nan' "$tokens" --data text --out new --validation nan
writes_nothing 2 'give one of them' "$tokens" --data text --out new --validation 0.1 --validation-data text
writes_nothing 2 '--train: bpe: a vocabulary has from 257 to 16777216 tokens .* not 256' \
  "$tokens" --data text --out new --train 256
writes_nothing 2 '--train must be a whole number from 1 to 16777216, not 0' "$tokens" --data text --out new --train 0
writes_nothing 2 '--kind is for --train N' "$tokens" --data text --out new --kind unigram
writes_nothing 2 '--kind must be bpe, wordpiece or unigram, not bert' \
  "$tokens" --data text --out new --train 90 --kind bert
writes_nothing 2 'give one of them' "$tokens" --data text --out new --train 300 --tokenizer learned/tokenizer.json
writes_nothing 2 '--characters: a BPE starts from bytes' "$tokens" --data text --out new --train 300 --characters 9
writes_nothing 2 '--lowercase is for --kind wordpiece' "$tokens" --data text --out new --train 300 --no-lowercase
writes_nothing 1 'the characters of the texts need 27 tokens: a vocabulary of 30 at least' \
  "$tokens" --data text --out new --train 20 --kind unigram
writes_nothing 2 '--layout nanogpt has 16 bits a token' "$tokens" --data text --out new --train 70000 --layout nanogpt
writes_nothing 2 'a tokenizer.json alone is written by --train N' "$tokens" --data text --out new.json
writes_nothing 2 '--layout is for shards' "$tokens" --data text --out new.json --train 300 --layout llm.c
writes_nothing 2 '--broken-utf8 must be keep or replace, not drop' "$tokens" --data text --out new --broken-utf8 drop
writes_nothing 2 '--broken-utf8: of bytes, all are kept' "$tokens" --data text --out new --broken-utf8 replace
writes_nothing 2 '--shard-tokens must be a whole number from 1' "$tokens" --data text --out new --shard-tokens 0
writes_nothing 2 "the tokenizer has no token '<pad>'" \
  "$tokens" --data text --out new --tokenizer learned/tokenizer.json --separator '<pad>'
writes_nothing 2 "the tokenizer has no token '<pad>'" "$tokens" --data text --out new --train 300 --separator '<pad>'
writes_nothing 1 'nowhere: no such file' "$tokens" --data nowhere --out new
writes_nothing 1 'empty: is empty' "$tokens" --data text empty --out new
writes_nothing 1 'is a directory' "$tokens" --data . --out new
writes_nothing 1 'nowhere.json: no such file' "$tokens" --data text --out new --tokenizer nowhere.json
writes_nothing 1 "bad.json: is not a tokenizer.json: it has no object 'model'" \
  "$tokens" --data text --out new --tokenizer bad.json
writes_nothing 1 'text: is not JSON' "$tokens" --data text --out new --tokenizer text
printf x >letter
writes_nothing 1 'too short for a share' "$tokens" --data letter --out new
writes_nothing 1 'learned: is there already; name a new folder' "$tokens" --data text --out learned
writes_nothing 1 'text: is there already' "$tokens" --data text --out text
writes_nothing 1 'cannot be made' "$tokens" --data text --out text/new
# A full disk, played by a limit on the size of a file: nothing is left.
writes_nothing 1 'train.bin: cannot be written' \
  bash -c 'trap "" XFSZ; ulimit -f 4; exec "$@"' - "$tokens" --data text --out new
[[ $failures -eq 0 ]] || { echo "$failures failures"; exit 1; }
echo "all as expected"
