#!/usr/bin/env bash
# check.sh GROUP TRAIN SAMPLE GRADUS SCRIPTS WORK: one group of checks, in the folder WORK, which is emptied.
#   flags   bad flags of gradus train and of both programs: one line on stderr, exit status 2
#   text    bad training texts: one line, and no run folder is made
#   data    token shards, texts of their own for validation, shuffled windows
#   runs    good runs, a run folder that is taken, a run that diverges, too little memory
#   signals runs that are told to end, and whose output is gone: the model is saved
#   disk    checkpoints, logs and pictures that cannot be written
#   resume  interrupted runs, resumed to the same weights
#   memory  plans, budgets and their pictures
#   model   model files: read back, and refused where they are not this program's
#   script  scripts/train.sh to its end: it compiles, trains, samples and plans
set -euo pipefail
[[ $# -eq 6 ]] || {
  echo "usage: $0 flags|text|data|runs|signals|disk|resume|memory|model|script TRAIN SAMPLE GRADUS SCRIPTS WORK" >&2
  exit 2
}
group=$1 train=$2 sample=$3 gradus=$4 scripts=$5 work=$6
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
source "$here/support.sh"

# wait_for FILE REGEX: until the file has such a line, for three minutes at most
wait_for() {
  for _ in $(seq 1800); do
    if grep -qsE -- "$2" "$1"; then return; fi
    sleep 0.1
  done
  wrong "$1 never had a line that matches '$2'"
}
# A full disk, played by a limit on the size of a file, in KiB. What a program built for coverage counts has to go
# elsewhere and say so elsewhere.
full_disk() {
  (trap '' XFSZ; ulimit -f "$1"; shift; export GCOV_PREFIX=$PWD/gcov GCOV_ERROR_FILE=$PWD/gcov.log; exec "$@")
}

# fits COLUMNS: no line of the output is longer
fits() {
  local longer
  longer=$(awk -v most="$1" 'length($0) > most' out)
  [[ -z $longer ]] || wrong "longer than $1 columns: $(head -n 2 <<<"$longer")"
}

# flip FILE AT: the file with another byte at that place
flip() {
  head -c "$2" "$1"
  dd if="$1" bs=1 skip="$2" count=1 2>/dev/null | tr '\0-\377' '\1-\377\0'
  tail -c +"$(($2 + 2))" "$1"
}

for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text
quick=("$train" --data text --steps 2 --sample 20 --eval-every 1)

# refuses_alike FLAG VALUE: the command does, before it compiles, in the words of the trainer.
refuses_alike() {
  refuses 2 "^gradus train: $1 must be .*, not $2\$" "$gradus" train --data text "$1" "$2"
  cp err said
  refuses 2 "^gpt_train: $1 must be .*, not $2\$" "$train" --data text "$1" "$2"
  [[ $(sed 's/^gradus train: //' said) == "$(sed 's/^gpt_train: //' err)" ]] ||
    wrong "the command says '$(cat said)', the trainer '$(cat err)'"
}

flags() {
  refuses 2 'width 130 is not divisible by --heads 4; try --width 132' "$gradus" train --width 130
  refuses 2 '--layers must be a whole number from 1 to 999999, not 0' "$gradus" train --layers 0
  refuses 2 '--heads must be a whole number' "$gradus" train --heads four
  refuses 2 '--context must be a whole number' "$gradus" train --context -8
  refuses 2 '--batch must be a whole number' "$gradus" train --batch 1.5
  refuses 2 '--minutes must be a positive number, not soon' "$gradus" train --minutes=soon
  refuses 2 '--ranks must be a power of two, not 3$' "$gradus" train --data text --ranks 3
  refuses 2 '--leaves must be a whole number from 1 to 4096, not 8192$' "$gradus" train --leaves 8192
  refuses 2 '--shard must be nothing, states, gradients or parameters, not all$' "$gradus" train --shard all
  refuses 2 '--sums must be tree or fastest, not slow$' "$gradus" train --sums slow
  refuses 2 '--ranks: mpirun or srun has started 4; leave it out' \
    env OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 "$gradus" train --data text --ranks 2
  refuses 2 'srun has started 4 processes.*--mpi=pmix' \
    env -u OMPI_COMM_WORLD_SIZE -u PMI_SIZE -u PMIX_RANK SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 \
    "$gradus" train --data text
  local flag value
  while read -r flag value; do
    for value in $value; do refuses_alike "$flag" "$value"; done
  done <<'END'
--steps 0 4294967296 99999999999999999999 many 1.5
--minutes -3 0 0e5 nan soon 1e
--lr abc 0 -1 inf 0x10 3e-4x 1e-400 1e999 0e5
--seed -1 18446744073709551616 0x10
--batch-tokens 0 1.5 2147483649
--accumulate 0 1001 two
--weight-decay -0.1 nan much
--clip -1 1,5 1e999 1e-400
--dropout 1 1.5 -0.1 some 1e-400
--threads -1 4097
--workers 65
--warmup -1 9223372036854775808
--schedule steep or
--order odd
--checkpoint most nonesuch
--save-every -1 1.5 5d s
--save-retry -1 nan
--keep-checkpoints 0 101
--eval-every 0
--early-stop -1
--validation 0 1 0.0 x
--sample -1 2147483648
--memory-report picture.png
END
  # A value that is missing, empty or one too many; and what nobody has.
  local call
  for call in command trainer; do
    local program=("$train")
    [[ $call == trainer ]] || program=("$gradus" train)
    refuses 2 '--dropout needs a value before --lr; if that is the value, write --dropout=--lr$' \
      "${program[@]}" --data text --steps 3 --dropout --lr 0.5
    refuses 2 "--seed must be a whole number .*, not ''\$" "${program[@]}" --data text --seed= --steps 7
    refuses 2 '--seed needs a value before --width; ' "${program[@]}" --data text --seed --width 64
    refuses 2 "'0.25' is not expected: --lr takes one value; " "${program[@]}" --data text --lr 0.5 0.25
    refuses 2 "'b' is not expected: --data=VALUE is one value; several are --data A B\$" "${program[@]}" --data=text b
    refuses 2 '--steps needs a value: --steps VALUE$' "${program[@]}" --data text --steps
    refuses 2 '--plan must be true or false, not x$' "${program[@]}" --data text --plan=x
    refuses 2 '--no-plan: --plan is off unless it is given; leave it out$' "${program[@]}" --data text --no-plan
    refuses 2 'there is no flag --step; is --steps meant\?$' "${program[@]}" --data text --step 3
    refuses 2 'there is no flag --batch_size; is --batch meant\?$' "${program[@]}" --data text --batch_size=3
    refuses 2 'there is no flag --epochs; --help lists those there are$' "${program[@]}" --data text --epochs 3
    refuses 2 "--config must be the name of a file, not ''\$" "${program[@]}" --config= --data text
    refuses 2 "--tokenizer must be the name of a file, not ''\$" "${program[@]}" --data text --tokenizer=
    refuses 2 "--chat-format: no chat format is called 'x'; there are chatml, " \
      "${program[@]}" --data text --chat-format x
  done
  printf 'lr =\nsteps = 3\n' >empty_value
  refuses 2 "^gradus train: --config: empty_value: --lr must be a positive number, not ''\$" \
    "$gradus" train --data text --config empty_value
  # What follows from the model alone is said before it is compiled.
  refuses 2 '--memory-budget: no schedule fits in 1.00 MiB: the parameters alone take ' \
    "$gradus" train --data text --plan --memory-budget 1MiB
  printf '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}\n' >chats.jsonl
  refuses 2 '--data: chats.jsonl, line 1: a chat needs the format that the model writes chats in; .*--chat-format' \
    "$gradus" train --data chats.jsonl
  refuses 2 "^gradus sample: there is no flag --cuont; is --count meant\?\$" "$gradus" sample . --cuont 3
  refuses 2 '^gradus sample: --prompt needs a value before --count; ' "$gradus" sample . --prompt --count 3
  # What the script lets through, the trainer does too: what is refused is the text.
  : >nothing
  while read -r flag value; do
    for value in $value; do
      refuses 1 'nothing: is empty' "$train" --data nothing "$flag" "$value"
      refuses 2 '--data: nothing: is empty' "$gradus" train --data nothing "$flag" "$value"
    done
  done <<'END'
--steps 1 007 4294967295
--minutes .5 5. 1e-3 2E+1
--lr 3e-4 1e-300 1e300
--clip 0 0e999 1e308
--seed 0 18446744073709551615
--accumulate 1000
--dropout 0 0.999 1e-9
--warmup 9223372036854775807
--schedule wsd
--order shuffled
--checkpoint none keep:linear,gelu
--save-every 0 100 30s .5m 1h
--memory-budget 600MiB 1.5GiB 1000kB
--memory-report x.json
--validation 0.5
END
  refuses 2 '--memory-budget: size "600": no unit' "$gradus" train --memory-budget 600
  refuses 2 '--memory-budget: .*a size of 0 bytes' "$gradus" train --memory-budget 0MiB
  refuses 2 '--batch-tokens must be at most 2048000 with this batch, not 3000000' \
    "$gradus" train --data text --batch-tokens 3000000
  mkdir run_of_old folder
  : >run_of_old/flags
  refuses 2 "run_of_old: a run of an earlier version, which had a file 'flags' in place of 'config'" \
    "$gradus" train --resume run_of_old
  refuses 2 "run_of_old: a run of an earlier version, which had a file 'flags' in place of 'config'" \
    "$gradus" sample run_of_old
  # Operations that the blocks do not apply: in the words of the trainer, and the script knows all that they do.
  operations() { sed 's/.*they apply //' "$1" | tr -d ' ' | tr ',' '\n' | sort; }
  for value in 0.1 0.0; do
    refuses 2 "^gpt_train: --checkpoint: .* the blocks apply nothing named 'nosuch'; they apply " \
      "$train" --data text --dropout $value --checkpoint drop:linear,nosuch
    cp err said
    refuses 2 "^gradus train: --checkpoint: .* the blocks apply nothing named 'nosuch'; they apply " \
      "$gradus" train --data text --checkpoint drop:linear,nosuch --dropout $value
    [[ $(operations said) == "$(operations err)" ]] ||
      wrong "--dropout $value: the blocks apply $(operations said), and the script says $(operations err)"
  done
  # A project in a folder where nothing can be made: here, a file is where build/ would be.
  mkdir -p taken/scripts
  cp "$scripts"/*.sh taken/scripts/
  : >taken/build
  refuses 1 '/taken/build/command: cannot be written; copy the project to a folder of your own$' \
    taken/scripts/train.sh --data text
  mkfifo pipe
  local program
  for program in "$gradus train" "$train"; do
    read -ra program <<<"$program"
    refuses 2 '--config: nowhere: no such file' "${program[@]}" --config nowhere
    refuses 2 '--config: folder: is a directory; name a file' "${program[@]}" --config folder
    refuses 2 '--config: pipe: is not a plain file' "${program[@]}" --config pipe
    printf '\r\n# a comment\r\n \r\nsteps\r\n' >lines
    refuses 2 "--config: lines: line 4: must be 'name = value', not 'steps'" "${program[@]}" --config lines
    printf 'data = text\r\nsteps = 3\r\nlr = abc\r\n' >lines
    refuses 2 '--config: lines: --lr must be a positive number, not abc$' "${program[@]}" --config lines
    refuses 2 '--minutes must be a positive number, not -1$' "${program[@]}" --config lines --lr 1 --minutes -1
  done
  refuses 2 "test.sh: --only: '\[' is not a regular expression" "$scripts/test.sh" --only '['
  refuses 2 '--model must be tiny, nano, .*, not huge' "$gradus" train --model huge
  refuses 2 '--experts must be a whole number from 1' "$gradus" train --experts 0
  refuses 2 '--experts-per-token 9: there are 8 experts' "$gradus" train --experts 8 --experts-per-token 9
  refuses 2 '--experts-per-token is for a model with --experts' "$gradus" train --experts-per-token 2
  refuses 2 '--experts is for --architecture gpt2' "$gradus" train --architecture llama --experts 8
  refuses 2 '--optimizer must be adamw, sgd, lion, .*, not adam$' "$gradus" train --optimizer adam
  refuses 2 '--optimizer muon makes its steps in float' "$gradus" train --optimizer muon --precision fp64
  refuses 2 '--schedule must be constant, linear, cosine or wsd.*steep' "$train" --data text --schedule steep
  refuses 2 '--precision must be fp32, .*, not fp8$' "$gradus" train --precision fp8
  refuses 2 '--precision tf32 is for --device cuda' "$gradus" train --precision tf32
  refuses 2 '--precision fp8_mixed is for --device cuda' "$gradus" train --precision fp8_mixed
  refuses 2 '--device must be cpu or cuda, .*, not gpu' "$gradus" train --device gpu
  refuses 2 '--device must be cpu or cuda, or a GPU by number, such as cuda:1, not cuda:first' \
    "$gradus" train --device cuda:first
  refuses 2 '--device must be cpu, which this program was compiled for .*, not cuda' "${quick[@]}" --device cuda:1
  refuses 2 '--graph .*: it is for --device cuda' "$gradus" train --graph
  refuses 2 '--graph .*: it is for --device cuda' "${quick[@]}" --graph
  refuses 2 '--checkpoint offload:linear: on the CPU they are kept in a file; name its folder by --offload' \
    "$gradus" train --checkpoint offload:linear
  refuses 2 '--offload .* is for the CPU' "$gradus" train --device cuda --offload .
  refuses 2 '--graph and --skip-spikes: give one of them' "$gradus" train --device cuda --graph --skip-spikes 3
  refuses 2 '--skip-spikes must be ' "$gradus" train --skip-spikes=-1
  refuses 2 '--sample-every and --sample 0: leave one of them out' "$train" --data text --sample-every 1 --sample 0
  refuses 2 '--sample-every must be ' "$gradus" train --sample-every=-1
  refuses 2 '--tune-products .*: it is for --device cuda' "$gradus" train --tune-products products
  refuses 2 '--tune-products .*: it is for --device cuda' "${quick[@]}" --tune-products products
  # By the command before it compiles, and by the trainer: flags that exclude each other.
  for program in "$gradus train" "$train"; do
    read -ra program <<<"$program"
    refuses 2 '^[a-z_ ]*: --anomaly and --profile: give one of them$' "${program[@]}" --data text --anomaly --profile
    refuses 2 '--validation and --validation-data: give one of them$' \
      "${program[@]}" --data text --validation 0.1 --validation-data text
    refuses 2 '--accumulate and --batch-tokens: give one of them; the tokens decide ' \
      "${program[@]}" --data text --accumulate 2 --batch-tokens 4096
    refuses 2 '--checkpoint and --memory-budget: give one of them; the budget chooses ' \
      "${program[@]}" --data text --checkpoint blocks --memory-budget 1GiB
  done
  refuses 2 '--vocabulary must be 256 or more' "$gradus" train --vocabulary 100
  refuses 2 '--spets' "$gradus" train --spets 3
  refuses 2 '--data' "$gradus" train --data
  refuses 2 "--data must be the name of a file, not ''" "$gradus" train --data ''
  refuses 2 "gradus train: --width must be .*, not ''" "$gradus" train --width ''
  refuses 2 "gradus train: --steps" "$gradus" train --steps=
  refuses 2 "gradus train: --lr must be .*, not ''" "$gradus" train --lr ''
  refuses 2 "gradus train: --memory-report must be a file named" "$gradus" train --memory-report ''
  refuses 2 '--data: nowhere.txt: no such file' "$gradus" train --data nowhere.txt
  refuses 2 '--data: .: has no .txt or .md files' "$gradus" train --data .
  succeeds "$gradus" train --help
  has out '--minutes'

  refuses 2 '--save-every must be a number of steps, such as 100, or a time, such as 30s, 5m or 1h, not -1' \
    "${quick[@]}" --save-every=-1
  refuses 2 "--save-every must be .*, not ''" "${quick[@]}" --save-every ''
  refuses 2 '--batch-tokens must be at most 2048000 with this batch, not 3000000' "${quick[@]}" --batch-tokens 3000000
  refuses 2 '--spets' "${quick[@]}" --spets 3
  refuses 2 '--data is required' "$train"
  refuses 2 "--seed must be .*, not ''" "${quick[@]}" --seed ''
  refuses 2 '--out must be the name of a folder' "${quick[@]}" --out ''
  refuses 2 '--checkpoint must be none, blocks, attention, matmul, keep:.*, not most' "${quick[@]}" --checkpoint most
  refuses 2 '--checkpoint must be keep:, drop: or offload: and names' "${quick[@]}" --checkpoint keep:linear,,gelu
  refuses 2 "--checkpoint: .*the blocks apply nothing named 'linaer'; they apply .*linear" \
    "${quick[@]}" --checkpoint keep:linaer
  refuses 2 '--memory-budget: size "600": no unit' "${quick[@]}" --memory-budget 600
  refuses 2 '--memory-budget: .*unknown unit "furlongs"' "${quick[@]}" --memory-budget 3furlongs
  refuses 2 '--memory-budget: .*cannot be negative' "${quick[@]}" --memory-budget=-1MiB
  refuses 2 '--memory-budget: .*a size of 0 bytes' "${quick[@]}" --memory-budget 0MiB
  refuses 2 'no schedule fits in 1.00 MiB; the least that is feasible .* [0-9]+MiB' "${quick[@]}" --memory-budget 1MiB
  refuses 2 '--memory-report must be a file named' "${quick[@]}" --memory-report picture.png
  refuses 1 'nowhere/x.html: cannot be written' "$train" --plan --memory-report nowhere/x.html
  cp text text.html
  refuses 2 'text.html: is a text of this run' "$train" --data text.html --steps 1 --memory-report ./text.html
  refuses 2 '--temperature must be 0 or more' "$sample" model --temperature -1
  refuses 2 '--temperature must be 0 or more, not warm' "$sample" model --temperature warm
  refuses 2 '--top-p must be above 0 and at most 1, not half' "$sample" model --top-p half
  refuses 2 '--repetition-penalty must be above 0, not nan' "$sample" model --repetition-penalty nan
  refuses 2 '--count must be a whole number from 1 .*, not 0' "$sample" model --count 0
  refuses 2 '--seed must be a whole number from 0 .*, not -1' "$sample" model --seed -1
  refuses 2 '--top-k must be a whole number from 0 .*, not many' "$sample" model --top-k many
  refuses 2 'model is required' "$sample"
  succeeds "$train" --help
  [[ ! -e runs ]] || wrong "a refused run made a run folder"
}

text() {
  : >empty
  head -c 500 text >short
  refuses 1 'nowhere.txt: no such file' "$train" --data nowhere.txt --out run
  refuses 1 'empty: is empty' "$train" --data text empty --out run
  refuses 1 '\.: is a directory' "$train" --data text . --out run
  refuses 1 '\.: has no shards to train on' "$train" --data . --out run
  # The program is compiled for a context of 128 bytes, and the last tenth of the text is for validation.
  refuses 1 'short: too short: 500 tokens; a context of 128 needs at least 1281 where a share of 0.1 is for validation \(--validation\)$' \
    "$train" --data short --out run
  if [[ $(id -u) -ne 0 ]]; then  # root may read anything
    cp text locked
    chmod 000 locked
    refuses 1 'locked: cannot be read: Permission denied' "$train" --data locked --out run
  fi
  [[ ! -e run ]] || wrong "a refused text left a run folder"
}

# sixteen FILE: its bytes as tokens of 16 bits
sixteen() { iconv -f ISO-8859-1 -t UTF-16LE "$1"; }
data() {
  head -n 150 text >learned
  tail -n 50 text >judged
  mkdir shards none
  sixteen learned >shards/train_000000.bin
  sixteen judged >shards/val_000000.bin
  # The same tokens, from texts and from shards: the same run.
  succeeds "$train" --data learned --validation-data judged --steps 3 --eval-every 1 --sample 0 --out of_texts
  has out 'validation loss [0-9.]* nats a byte'
  succeeds "$train" --data shards --steps 3 --eval-every 1 --sample 0 --out of_shards
  has out 'validation loss [0-9.]* nats a token after'
  [[ $(losses of_texts) == "$(losses of_shards)" ]] || wrong "shards give other losses than the text they were made of"
  # Each window once an epoch: another run, resumed like any other, and not as one of the other kind.
  refuses 2 "--sample-every: the data's tokens cannot be shown as text" \
    "$train" --data shards --sample-every 1 --out blind
  [[ ! -e blind ]] || wrong "a run that was refused has a folder"
  local shuffled=(--data shards --accumulate 2 --sample 0 --order shuffled)
  succeeds "$train" "${shuffled[@]}" --steps 4 --out shuffled
  [[ $(losses shuffled | head -n 3) != "$(losses of_shards)" ]] || wrong "--order shuffled changes nothing"
  succeeds "$train" "${shuffled[@]}" --steps 2 --schedule constant --out cut
  succeeds "$train" "${shuffled[@]}" --steps 4 --schedule constant --out straight
  succeeds "$train" "${shuffled[@]}" --steps 4 --schedule constant --resume cut
  cmp -s straight/model.safetensors cut/model.safetensors || wrong "a resumed run of shuffled windows has other weights"
  refuses 1 'its order is shuffled, and this run.s is random' \
    "$train" --data shards --accumulate 2 --steps 9 --resume cut
  refuses 1 'its data is ' \
    "$train" --data shards/train_000000.bin --accumulate 2 --order shuffled --steps 9 --resume cut
  # What cannot be used.
  refuses 1 'none: has no shards to train on' "$train" --data none --out run
  refuses 1 'name texts or shards .*, not both' "$train" --data text shards/val_000000.bin --out run
  printf '\1\2\3' >odd.bin
  refuses 1 'odd.bin: 3 bytes is not a whole number of uint16 tokens' "$train" --data odd.bin --out run
  for _ in $(seq 2000); do printf '\0\1'; done >foreign.bin
  refuses 1 'foreign.bin: token 0 is 256, outside the vocabulary of 256' "$train" --data foreign.bin --out run
  # A token that no batch of the first steps has is found before any is taken.
  head -c 400000 /dev/zero >rare.bin
  printf '\0\1' | dd of=rare.bin bs=2 seek=190000 conv=notrunc 2>/dev/null
  refuses 1 'rare.bin: token 190000 is 256, outside the vocabulary of 256' "$train" --data rare.bin --out run
  refuses 1 'the tokenizer has 700 tokens, and this program was compiled for 256; .*--vocabulary' \
    "$train" --data text --tokenizer "$here/../data/tokenizer/tokenizer.json" --out run
  refuses 1 'text: ' "$train" --data text --tokenizer text --out run
  refuses 2 '--validation must be between 0 and 1, not 1' "$train" --data text --validation 1
  refuses 2 '--validation and --validation-data: give one' \
    "$train" --data text --validation 0.2 --validation-data judged
  refuses 2 '--order must be random or shuffled, not odd' "$train" --data text --order odd
  refuses 2 '--data: none: has no .txt or .md files' "$gradus" train --data none
  refuses 2 '--validation-data: gone: no such file' "$gradus" train --data text --validation-data gone
  refuses 2 '--tokenizer: gone: no such file' "$gradus" train --data text --tokenizer gone
  [[ ! -e run ]] || wrong "refused data left a run folder"
}

# The losses of a run, one a line.
losses() { sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$1/log.jsonl"; }

runs() {
  succeeds "${quick[@]}" --out first
  has out '^step +2  loss .* validation .* s  .* tokens/s'
  has out '^step +2  loss .* [0-9]+ % of GEMM'
  fits 80
  has first/log.jsonl '"step": 2, "loss": [0-9.]+, "validation": [0-9.]+.* "bits_per_byte": [0-9.]+'
  # The screen has a smoothed loss, and a byte has as many bits as its nats by ln 2.
  local one two shown
  { read -r one; read -r two; } < <(losses first)
  shown=$(sed -n 's/^step  *2  loss \([0-9.]*\).*/\1/p' out)
  awk -v a="$one" -v b="$two" -v s="$shown" 'BEGIN { d = (0.9 * a + b) / 1.9 - s; exit !(d * d < 4e-9) }' ||
    wrong "losses $one and $two are shown as $shown"
  sed -n 's/.*"validation": \([^,]*\),.*"bits_per_byte": \([^,}]*\).*/\1 \2/p' first/log.jsonl |
    awk '{ d = $1 / log(2) - $2; if (d * d > 1e-12) exit 1 }' || wrong "bits per byte of $(tail -n 1 first/log.jsonl)"
  has first/loss.svg '</svg>'
  has first/loss.svg 'loss \(nats a byte\)'
  # More threads than processors take turns: no more are made than there are.
  succeeds "${quick[@]}" --sample 0 --no-save --out crowded --threads 4096
  has out '^--threads 4096: this process may use [0-9]+ processors?; [0-9]+ threads?$'
  OMP_NUM_THREADS=100000 succeeds "${quick[@]}" --sample 0 --no-save --out crowd
  has out '^OMP_NUM_THREADS: this process may use [0-9]+ processors?; [0-9]+ threads?$'
  [[ $(losses first) == "$(losses crowd)" && $(losses first) == "$(losses crowded)" ]] ||
    wrong "the losses depend on the number of threads"
  [[ -s first/model.safetensors ]] || wrong "no model was saved"
  [[ $(losses first | wc -l) -eq 2 ]] || wrong "the log has not one line a step"

  # A narrow screen, and a run folder whose name would change the terminal's colours.
  COLUMNS=40 succeeds "${quick[@]}" --profile --sample 0 --out $'narrow\e[31m'
  fits 40
  has out '^step 2  loss [0-9.]+'
  has out '^linear +backward +[0-9.]+ +[0-9.]+ %$'
  [[ $(tr -d '\t\n -~' <out | wc -c) -eq 0 ]] || wrong "control characters on the screen: $(cat -v out | head -n 30)"
  refuses 1 'narrow.x1b.31m: is not empty' "${quick[@]}" --out $'narrow\e[31m'
  COLUMNS=40 succeeds "$train" --plan
  fits 40
  succeeds "$train" --help
  fits 80
  # A text that is learned by heart, and another that is not: the validation loss rises.
  for i in $(seq 130); do echo "$i" | sha256sum; done >noise
  for i in $(seq 130); do echo "other $i" | sha256sum | od -An -v -to1; done >other_noise
  succeeds "$train" --data noise --validation-data other_noise --steps 60 --eval-every 4 --sample 0 --lr 1e-2 \
    --out overfit
  has out '^overfitting: since step [0-9]+ the validation loss has risen, from'
  [[ $(grep -c '^overfitting' out) -le 2 ]] || wrong "overfitting was told $(grep -c '^overfitting' out) times"

  succeeds "$train" --data noise --validation-data other_noise --steps 60 --eval-every 4 --sample 0 --lr 1e-2 \
    --early-stop 2 --out stopped
  [[ $(grep -c '^early stop: the last 2 validations brought no new best$' out) -eq 1 ]] ||
    wrong "--early-stop said: $(grep early out)"
  [[ -s stopped/model.safetensors && $(losses stopped | wc -l) -lt 60 ]] || wrong "--early-stop ended nothing"

  # An update whose norm is far above the mean is skipped, also by a run that is resumed.
  local spiky=("$train" --data noise --lr 1e-7 --schedule constant --warmup 0 --dropout 0.1 --skip-spikes 0.5
    --sample 0)
  succeeds "${spiky[@]}" --steps 60 --out spikes
  has out '^step +[0-9]+: the update is skipped: its gradient norm is [0-9.]+ '
  succeeds "${spiky[@]}" --steps 45 --out spikes2
  succeeds "${spiky[@]}" --steps 60 --resume spikes2
  cmp -s spikes/model.safetensors spikes2/model.safetensors || wrong "--skip-spikes: a resumed run skips other updates"

  # The same seed gives the same losses on any number of threads; another gives others.
  succeeds "${quick[@]}" --out second --threads 1
  [[ $(losses first) == "$(losses second)" ]] || wrong "the losses depend on the number of threads"
  succeeds "${quick[@]}" --out third --seed 2
  [[ $(losses first) != "$(losses third)" ]] || wrong "the losses do not depend on the seed"
  succeeds "$train" --data text --steps 1 --sample 0 --no-save --out decimal --seed 010
  has decimal/log.jsonl '"seed": 10,'
  succeeds "${quick[@]}" --out dropped --dropout 0.2 --accumulate 2 --no-save
  [[ ! -e dropped/model.safetensors ]] || wrong "--no-save saved"

  # A run is repeated from its configuration, and flags that are given override it.
  has first/config '^# Written by gpt_train of gradus [0-9.]+, 20[0-9-]+ [0-9:]+\.'
  has first/config '^layers = 4$'
  has first/config '^seed = 1$'
  has first/config '^steps = 2$'
  has first/config "^data = $PWD/text\$"
  COLUMNS=120 succeeds "$train" --config first/config --out repeated
  has out 'bits/byte'
  cmp -s first/model.safetensors repeated/model.safetensors || wrong "a configuration does not repeat its run"
  cmp -s <(tail -n +2 first/config) <(tail -n +2 repeated/config) || wrong "a repeated run has another configuration"
  succeeds "$train" --config first/config --seed 2 --out other_seed --no-save
  [[ $(losses third) == "$(losses other_seed)" ]] || wrong "--seed does not override the configuration"
  [[ $(grep '^seed' other_seed/config) == 'seed = 2' ]] ||
    wrong "the seed that was given does not take the place of the configuration's"
  has other_seed/config '^save = false$'
  printf 'steps = 3 # three\n' >bad
  refuses 2 '--config: bad: --steps must be a whole number' "$train" --data text --config bad
  printf '\n\nsteps\n' >bad
  refuses 2 "--config: bad: line 3: must be 'name = value', not 'steps'" "$train" --data text --config bad
  printf 'layers = 5\n' >bad
  refuses 2 '--config: bad: --layers must be 4, which this program was compiled for .*, not 5' \
    "$train" --data text --config bad
  printf 'spets = 5\n' >bad
  refuses 2 'spets' "$train" --data text --config bad
  # Line ends of Windows.
  sed 's/$/\r/' first/config >windows
  succeeds "$train" --config windows --out of_windows --no-save
  [[ $(losses first) == "$(losses of_windows)" ]] || wrong "a configuration with CRLF is another"

  # Event files for TensorBoard; the operation that spoils a run is named.
  succeeds "${quick[@]}" --tensorboard --no-save --out events
  grep -qa 'loss/validation' events/events.out.tfevents.* || wrong "no event file with losses"
  succeeds "${quick[@]}" --anomaly --no-save --out fine
  [[ $(losses first) == "$(losses fine)" ]] || wrong "--anomaly changes the losses"
  refuses 1 'anomaly: at step [0-9]+, [a-z_]+ \((forward|backward|update)\) is the first to compute (-?inf|nan): |the parameter .* is no longer finite' \
    "$train" --data text --steps 5 --lr 1e30 --clip 0 --warmup 0 --sample 0 --anomaly --out anomaly
  refuses 1 'anomaly: at step 2, ' "$train" --data text --steps 5 --lr 1e30 --clip 0 --warmup 0 --sample 0 --anomaly \
    --memory-report measured.html --out anomaly_measured
  succeeds "${quick[@]}" --anomaly --memory-report measured.html --no-save --out fine_measured
  has measured.html 'The measured peak is the planned one, to the byte'

  # The last update has the last word: a model that it spoilt is not saved.
  refuses 1 'the validation loss is no longer finite at step 1; try a lower --lr' \
    "$train" --data text --steps 1 --weight-decay 1e300 --sample 0 --out spoilt
  [[ ! -e spoilt/model.safetensors ]] || wrong "a model of no finite loss was saved"

  # A report that cannot be written leaves the folder free for another try, and may lie in the folder itself.
  refuses 1 'nowhere/x.html: cannot be written' "${quick[@]}" --out again --memory-report nowhere/x.html
  succeeds "${quick[@]}" --out again --memory-report again/x.html --no-save

  # Memory that the library did not ask for. The sanitizers cannot live with this limit.
  truncate -s 2G large larger
  short_of_memory() { (ulimit -v 2000000; exec "$@"); }
  grep -qE '__(asan|tsan)_init' "$train" ||
    refuses 1 '^gpt_train: --data: no memory to read it; ' \
      short_of_memory "$train" --data large larger --out large_run
  rm large larger

  # A run folder that is taken stays as it was.
  find first -type f -exec cksum {} + | sort >before
  refuses 1 'first: is not empty; name another folder with --out' "${quick[@]}" --out first
  refuses 1 'text: is not a folder' "${quick[@]}" --out text
  refuses 1 'cannot be made' "${quick[@]}" --out text/run
  find first -type f -exec cksum {} + | sort | cmp -s - before || wrong "an existing run folder was touched"

}

# begin FOLDER FLAGS...: a long run in the background that has taken steps. Job control (set -m) gives it reactions to
# signals of its own.
begin() {
  "$train" --data text --minutes 10 --out "$@" >out 2>err &
  pid=$!
  wait_for "$1/log.jsonl" '"step": 2'
}
# ends STATUS FOLDER: the run ends with that status, and its model can be read
ends() {
  local status=0
  wait "$pid" || status=$?
  [[ $status -eq $1 ]] || wrong "$2: status $status, not $1: $(tail -n 3 err)"
  local model=$2/model.safetensors
  [[ -e $model ]] || model=$2/checkpoint.safetensors
  "$sample" "$model" --count 1 >sampled 2>&1 || wrong "$2: $(tail -n 1 sampled)"
}

signals() {
  local signal pid
  set -m
  for signal in INT TERM HUP PIPE USR1 USR2 XCPU; do
    begin "by_$signal"
    kill "-$signal" "$pid"
    ends 0 "by_$signal"
    has out 'validation loss [0-9.]+ nats a byte after [0-9]+ steps'
  done
  # A long step is cut short, and the model is that of the step before.
  "$train" --data text --steps 5 --accumulate 1000 --out long >out 2>err &
  pid=$!
  wait_for out '^machine: '
  kill -INT "$pid"
  ends 0 long
  has out 'after 0 steps'
  # timeout and others send a signal twice: that is one request.
  begin twice
  kill -INT "$pid"
  kill -INT "$pid" 2>/dev/null || true
  ends 0 twice
  # Somebody who presses Ctrl-C again while the program waits for room on the disk does not want to wait.
  begin impatient
  mkdir impatient/checkpoint.safetensors.tmp
  kill -INT "$pid"
  wait_for err 'trying again'
  sleep 3
  kill -INT "$pid"
  local status=0
  wait "$pid" || status=$?
  [[ $status -eq 130 ]] || wrong "the second Ctrl-C: status $status"
  # While it plans there is nothing to save.
  "$train" --data text --accumulate 1000 --memory-budget 60MiB --out planning >out 2>err &
  pid=$! status=0
  sleep 1
  kill -INT "$pid"
  wait "$pid" || status=$?
  [[ $status -eq 130 && ! -e planning ]] || wrong "Ctrl-C in the plan: status $status, $(ls -d planning)"
  # nohup: what was to be ignored stays so.
  (trap '' HUP; exec "$train" --data text --steps 30 --sample 0 --out deaf) >out 2>err &
  pid=$!
  wait_for deaf/log.jsonl '"step": 2'
  kill -HUP "$pid"
  ends 0 deaf
  has out 'after 30 steps'

  # Ctrl-C ends the reader of the output as well, before the program has said anything.
  "$train" --data text --minutes 10 --out piped 2>err | tee log >/dev/null &
  wait_for piped/log.jsonl '"step": 2'
  kill -INT -- "-$(jobs -p | tail -n 1)"
  wait
  succeeds "$sample" piped/model.safetensors --count 1
  set +m
  # A reader that has seen enough.
  { "$train" --data text --minutes 10 --out head 2>err || echo "$?" >status; } | head -n 1 >out
  [[ $(cat status) -eq 1 ]] || wrong "| head -n 1: status $(cat status)"
  has err 'the output could not be written: was it closed'
  succeeds "$sample" head/model.safetensors --count 1
  # No output at all, and no file that takes its place.
  "$train" --data text --steps 2 --sample 5 --out closed >&- 2>err && wrong "closed output: status 0"
  has err 'the output could not be written: was it closed'
  [[ $(grep -cv '^{.*}$' closed/log.jsonl) -eq 0 ]] || wrong "the output went to the log"
  succeeds "$sample" closed/model.safetensors --count 1
  # Its text is rewritten in place: that is noticed, and the run is saved as it was.
  local change problem
  for change in ': >book' 'cp other book' 'truncate -s 3000 book' 'echo more >>book'; do
    cp text book
    tr a-z b-za <text >other
    set -m
    rm -rf rewritten
    "$train" --data book --minutes 10 --save-every 0 --out rewritten >out 2>err &
    pid=$!
    wait_for rewritten/log.jsonl '"step": 3'
    eval "$change"
    ends 1 rewritten
    set +m
    problem='book: has changed since it was opened; it must not change while it is in use'
    [[ $(cat err) == "gpt_train: warning: $problem; the run is saved and ends"$'\n'"gpt_train: $problem" ]] ||
      wrong "$change: $(cat err)"
    has out '^saved rewritten/model.safetensors after step [0-9]+$'
    [[ $(tail -n 1 rewritten/log.jsonl) == *"\"step\": $(sed -n 's/^saved .* after step //p' out),"* ]] ||
      wrong "$change: the log ends in $(tail -n 1 rewritten/log.jsonl)"
  done
  cp text book
  succeeds "$train" --data book --steps $(($(sed -n 's/^saved .* after step //p' out) + 2)) --sample 0 \
    --resume rewritten
  # Another file that takes its name changes nothing for the run.
  set -m
  "$train" --data book --minutes 10 --eval-every 2 --out renamed >out 2>err &
  pid=$!
  wait_for renamed/log.jsonl '"step": 3'
  cp other next && mv next book
  wait_for err 'warning: book: rewritten, replaced or removed since it was opened'
  kill -TERM "$pid"
  ends 0 renamed
  set +m
  [[ $(wc -l <err) -eq 1 ]] || wrong "a renamed text: $(cat err)"
  # Its folder is removed: it is made again, whole.
  set -m
  begin removed --save-every 0
  rm -rf removed
  wait_for removed/log.jsonl '"model"'
  wait_for removed/config '^minutes'
  for _ in $(seq 600); do [[ -s removed/checkpoint.safetensors ]] && break; sleep 0.1; done
  [[ $(sed -n 's/.*"step": \([0-9]*\),.*/\1/p' removed/log.jsonl | head -n 3 | tr '\n' ' ') == '1 2 3 ' ]] ||
    wrong "the log that was made again begins with $(head -n 3 removed/log.jsonl)"
  kill -TERM "$pid"
  ends 0 removed
  set +m
  [[ $(cat err) == 'gpt_train: warning: removed: was removed; it is made again' ]] ||
    wrong "a removed folder: $(cat err)"
  # Only its configuration is.
  set -m
  begin bare
  rm bare/config
  wait_for bare/config '^minutes'
  kill -TERM "$pid"
  ends 0 bare
  set +m
  [[ $(cat err) == 'gpt_train: warning: bare/config: was removed; it is written again' ]] ||
    wrong "a removed configuration: $(cat err)"
  # Told to end, and killed while it validates: the log has the step that was saved.
  set -m
  begin hurried --save-every 0
  kill -TERM "$pid"
  for _ in $(seq 600); do [[ -s hurried/model.safetensors ]] && break; sleep 0.02; done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  set +m
  [[ $(losses hurried | wc -l) -ge \
    $(head -c 8000 hurried/checkpoint.safetensors | grep -ao '"step":"[0-9]*"' | tr -dc 0-9) ]] ||
    wrong "the log ends at step $(losses hurried | wc -l), before the checkpoint"
  # Killed outright, a run has what it saved last.
  set -m
  begin killed --save-every 1
  kill -KILL "$pid"
  ends 137 killed
  set +m
}

disk() {
  local pid status=0
  # The log fits, the model does not.
  refuses 1 'full/checkpoint.safetensors: cannot be written: File too large' \
    full_disk 100 "$train" --data text --steps 2 --save-retry 0 --out full
  [[ $(ls full) == $'config\nlog.jsonl\nloss.svg' ]] || wrong "the full disk left $(ls full)"
  # While training that is a warning, and one only; at the end the model is tried again before the run is given up.
  full_disk 100 "$train" --data text --steps 5 --save-every 1 --save-retry 1 --out fuller \
    >out 2>err </dev/null || status=$?
  [[ $status -eq 1 && $(losses fuller | wc -l) -eq 5 ]] ||
    wrong "status $status, $(losses fuller | wc -l) steps on a full disk"
  [[ $(grep -c 'warning: .*cannot be written: File too large; the run goes on, and saving is tried again' err) \
    -eq 1 ]] || wrong "$(cat err)"
  has err 'warning: .*cannot be written: File too large; trying again in 1 s, and for 1 s in all'
  has err '^gpt_train: fuller/checkpoint.safetensors: cannot be written'
  # The limit is no signal, whether the trainer was started with it ignored or not; and a run that is resumed on a full
  # disk goes on.
  succeeds "$train" --data text --steps 2 --sample 0 --out resumed
  (
    ulimit -f 0
    exec "$train" --data text --steps 5 --eval-every 2 --sample 0 --save-every 1 --save-retry 0 --resume resumed
  ) 2>&1 </dev/null |
    cat >out && wrong "status 0 where nothing can be written"
  has out '^step +5  loss .* validation '
  has out '^gpt_train: resumed/checkpoint.safetensors: cannot be written: File too large$'
  [[ $(grep -c 'warning: .*/config: cannot be written: File too large' out) -eq 1 ]] || wrong "$(cat out)"
  [[ $(grep -c warning out) -le 5 && -z $(grep warning out | sort | uniq -d) ]] || wrong "$(grep warning out)"
  succeeds "$train" --data text --steps 5 --sample 0 --resume resumed
  # Neither the log nor the picture fits. The program's own output would not either: it goes through a pipe.
  full_disk 1 "$train" --data text --steps 20 --eval-every 10 --sample 0 --no-save --out little 2>&1 </dev/null |
    cat >out ||
    wrong "status $? with a log that cannot be written"
  [[ $(grep -c 'warning: little/log.jsonl: cannot be written: File too large; the run goes on' out) -eq 1 ]] ||
    wrong "$(cat out)"
  [[ $(grep -c 'warning: little/loss.svg: cannot be written: File too large; the run goes on' out) -eq 1 ]] ||
    wrong "$(cat out)"
  has out '^validation loss .* after 20 steps'

  # Room is made while the run waits for it. A folder in the place of the unfinished file keeps it from being written.
  set -m
  begin waits
  mkdir waits/checkpoint.safetensors.tmp
  kill -TERM "$pid"
  wait_for err 'cannot be written: Is a directory; trying again in 1 s'
  rmdir waits/checkpoint.safetensors.tmp
  ends 0 waits
  # What was saved before stays when nothing more can be.
  set +m
  succeeds "$train" --data text --steps 2 --sample 0 --out kept
  cp kept/checkpoint.safetensors before
  mkdir kept/checkpoint.safetensors.tmp
  status=0
  "$train" --data text --steps 4 --sample 0 --save-every 1 --save-retry 0 --resume kept >out 2>err </dev/null ||
    status=$?
  [[ $status -eq 1 ]] || wrong "status $status where no checkpoint can be written"
  has err 'warning: kept/checkpoint.safetensors: cannot be written: Is a directory; the run goes on'
  cmp -s before kept/checkpoint.safetensors || wrong "the saved run changed"
}

resume() {
  local flags=(--data text --steps 10 --accumulate 2 --dropout 0.1 --seed 7 --eval-every 4 --sample 0) pid status=0
  succeeds "$train" "${flags[@]}" --out straight
  same_as_straight() {
    [[ $(losses straight) == "$(losses "$1")" ]] || wrong "$1: the losses are not those of the straight run"
    cmp -s straight/model.safetensors "$1/model.safetensors" ||
      wrong "$1: the weights are not those of the straight run"
    cmp -s straight/best.safetensors "$1/best.safetensors" || wrong "$1: another model was the best"
  }
  # Killed outright after some step, whichever it was, again and again, on other numbers of threads and workers.
  set -m
  "$train" "${flags[@]}" --save-every 0.001s --workers 0 --out cut >out 2>err &
  pid=$!
  wait_for cut/log.jsonl '"step": 3'
  kill -KILL "$pid"
  wait "$pid" || true
  "$train" "${flags[@]}" --save-every 1 --resume cut --threads 1 --workers 4 >out 2>err &
  pid=$!
  wait_for cut/log.jsonl '"step": 6'
  kill -KILL "$pid"
  wait "$pid" || true
  set +m
  echo '{"step": 7, "lo' >>cut/log.jsonl  # as if killed in the middle of a line
  succeeds "$train" "${flags[@]}" --resume cut
  has out '^resumed after step [5-9]'  # step 6 was logged once step 5 was saved
  same_as_straight cut
  # A polite end is resumed alike.
  set -m
  "$train" "${flags[@]}" --out asked >out 2>err &
  pid=$!
  wait_for asked/log.jsonl '"step": 2'
  kill -TERM "$pid"
  wait "$pid" || wrong "status $? after SIGTERM"
  set +m
  succeeds "$train" "${flags[@]}" --resume asked
  same_as_straight asked

  # A run that is made longer says that its learning rate jumps; one that is resumed as it was has nothing to say.
  succeeds "$train" "${flags[@]}" --steps 12 --resume asked
  has out '^the learning rate jumps from [0-9.e-]+ to [0-9.e-]+: the length of the run,'
  set -m
  "$train" "${flags[@]}" --out alike >out 2>err &
  pid=$!
  wait_for alike/log.jsonl '"step": 2'
  kill -TERM "$pid"
  wait "$pid" || wrong "status $? after SIGTERM"
  set +m
  succeeds "$train" "${flags[@]}" --resume alike
  grep -q 'rate jumps' out && wrong "$(grep 'rate jumps' out)"

  # A damaged checkpoint is passed over for the one before, and a run without a good one stays as it is.
  succeeds "$train" "${flags[@]}" --save-every 1 --out torn
  head -c 1000000 torn/checkpoint.safetensors >cut_short
  cp cut_short torn/checkpoint.safetensors
  succeeds "$train" "${flags[@]}" --resume torn
  has err 'warning: torn/checkpoint.safetensors: .*; resuming from checkpoint-previous.safetensors, step [0-9]+'
  [[ $(wc -c <torn/checkpoint-damaged.safetensors) -eq 1000000 ]] || wrong "the damaged checkpoint is not set aside"
  same_as_straight torn
  # So is one in which a single byte of a tensor has changed.
  succeeds "$train" "${flags[@]}" --save-every 1 --out flipped
  flip flipped/checkpoint.safetensors 3000000 >one_byte
  cp one_byte flipped/checkpoint.safetensors
  succeeds "$train" "${flags[@]}" --resume flipped
  has err 'warning: flipped/checkpoint.safetensors: is damaged: its checksum is .*; resuming from checkpoint-previous.safetensors, step [0-9]+'
  same_as_straight flipped
  cp cut_short torn/checkpoint.safetensors
  cp cut_short torn/checkpoint-previous.safetensors
  refuses 1 'torn/checkpoint.*safetensors: .*; no checkpoint is left to resume from; its model.safetensors can still be used: scripts/sample.sh torn$' \
    "$train" "${flags[@]}" --steps 20 --resume torn
  rm torn/model.safetensors torn/best.safetensors
  refuses 1 'no checkpoint is left to resume from; start a new run with --out$' \
    "$train" "${flags[@]}" --steps 20 --resume torn
  # As many are kept as asked; damaged ones are passed over, in order.
  succeeds "$train" "${flags[@]}" --save-every 1 --keep-checkpoints 4 --out many
  [[ $(cd many && echo checkpoint*) == "$(echo checkpoint{-previous-2,-previous-3,-previous,}.safetensors)" ]] ||
    wrong "--keep-checkpoints 4 kept $(cd many && echo checkpoint*)"
  cp cut_short many/checkpoint.safetensors
  cp one_byte many/checkpoint-previous.safetensors
  succeeds "$train" "${flags[@]}" --keep-checkpoints 1 --resume many
  has err 'warning: many/checkpoint.safetensors: .*; many/checkpoint-previous.safetensors: is damaged: .*; resuming from checkpoint-previous-2.safetensors, step [0-9]+'
  same_as_straight many
  [[ $(cd many && echo checkpoint*) == "checkpoint-damaged.safetensors checkpoint.safetensors" ]] ||
    wrong "--keep-checkpoints 1 kept $(cd many && echo checkpoint*)"

  refuses 1 'nowhere: no such folder' "$train" "${flags[@]}" --resume nowhere
  mkdir empty
  refuses 1 'empty: has no checkpoint' "$train" "${flags[@]}" --resume empty
  refuses 1 'its seed is 7, and this run.s is 8; resume it with the same value' \
    "$train" "${flags[@]}" --seed 8 --steps 20 --resume cut
  tr a-z b-za <text >other_text
  refuses 1 'its data is ' "$train" "${flags[@]}" --steps 20 --data other_text --resume cut
  cat text text >longer
  refuses 1 'its data is ' "$train" "${flags[@]}" --steps 20 --data longer --resume cut
  refuses 2 'has taken 10 steps already; give more' "$train" "${flags[@]}" --resume cut
  # Of a run that ended after its last checkpoint and before its model, the model is written.
  cp -r cut unwritten
  rm unwritten/model.safetensors
  succeeds "$train" "${flags[@]}" --resume unwritten
  cmp -s {cut,unwritten}/model.safetensors || wrong "a resumed run that had ended has written another model"
  refuses 2 'has taken 10 steps already; give more' "$train" "${flags[@]}" --resume unwritten
  refuses 2 'give one of them' "$train" "${flags[@]}" --resume cut --out other
  # Facts that cannot be, and tensors of another model, are damage like any other.
  cp -r cut changed
  sed 's/"step":"10"/"step":"-3"/' cut/checkpoint.safetensors >changed/checkpoint.safetensors
  cp changed/checkpoint.safetensors changed/checkpoint-previous.safetensors
  refuses 1 "changed/checkpoint.safetensors: is not a checkpoint of a run: its 'step' is '-3', which is not a number of its kind; changed/checkpoint-previous" \
    "$train" "${flags[@]}" --steps 20 --resume changed
  sed 's/"blocks.0.norm1.weight"/"blocks.0.norm7.weight"/' cut/checkpoint.safetensors >changed/checkpoint.safetensors
  cp cut/checkpoint-previous.safetensors changed/
  succeeds "$train" "${flags[@]}" --steps 11 --resume changed
  has err "warning: changed/checkpoint.safetensors: is damaged: its checksum is .*; resuming from checkpoint-previous"
  # A pipe where the log should be does not keep the run waiting.
  cp -r cut piped_log
  rm piped_log/log.jsonl
  mkfifo piped_log/log.jsonl
  refuses 1 'piped_log/log.jsonl: is not a plain file; move it away' \
    timeout 60 "$train" "${flags[@]}" --steps 20 --resume piped_log
  # One process at a time.
  set -m
  begin twice --seed 7
  refuses 1 'twice: this run is in progress in another process' "$train" "${flags[@]}" --minutes 10 --resume twice
  kill -TERM "$pid"
  wait "$pid" || true
  set +m
  same_as_straight cut
}

memory() {
  # A plan trains nothing and needs no text.
  succeeds "$train" --plan --memory-report plan.html
  has out '^peak +[0-9.]+ MiB'
  has out '^parameters and optimizer state [0-9.]+ MiB, planned workspace [0-9.]+ MiB$'
  has out '^planned in all [0-9.]+ MiB'
  fits 80
  has out '^outside of the plan and of --memory-budget: about [0-9]+ MiB of the process'
  has plan.html 'Peak [0-9.]+ MiB'
  [[ ! -e runs ]] || wrong "a plan made a run folder"
  cannot_print() { "$@" >/dev/full; }
  refuses 1 'the output could not be written' cannot_print "$train" --plan
  refuses 1 'the output could not be written' cannot_print "$train" --help
  succeeds "$train" --plan --memory-report plan.html
  local whole least planned
  planned=$(sed -n 's/^peak *\([0-9.]* MiB\).*/\1/p' out)
  whole=$(sed -n 's/^planned in all \([0-9]*\)[0-9.]* MiB/\1/p' out)

  # A batch for a number of tokens an update: the largest that fits.
  local batch=${train%/*}/gpt_batch
  if [[ -x $batch ]]; then
    local several
    succeeds "$train" --plan --batch-tokens 16384
    several=$(sed -n 's/^planned in all \([0-9]*\)[0-9.]* MiB/\1/p' out)
    [[ $several -gt $whole ]] || wrong "8 batches are planned in $several MiB, one in $whole"
    [[ $("$batch" --batch-tokens 16384 --memory-budget $((several + 2))MiB) -eq 16 ]] ||
      wrong "gpt_batch does not find the batch of this program"
    [[ $("$batch" --batch-tokens 16384 --memory-budget "${whole}MiB") -lt 16 ]] ||
      wrong "gpt_batch forgets the gradients of the first batch"
    [[ $("$batch" --batch-tokens 2048 --memory-budget $((whole + 2))MiB) -eq 16 ]] ||
      wrong "gpt_batch counts gradients twice for one batch"
    refuses 2 'no schedule fits in 1.00 MiB; the least that is feasible for this model and a batch of 1 is [0-9]+MiB$' \
      "$batch" --batch-tokens 16384 --memory-budget 1MiB
    least=$(sed -n 's/.* is \([0-9]*\)MiB$/\1/p' err)
    [[ $("$batch" --batch-tokens 16384 --memory-budget "${least}MiB") -eq 1 ]] ||
      wrong "gpt_batch finds no room in the $least MiB that it named"
    [[ $("$batch" --batch-tokens 1000 --memory-budget 1GiB) -eq 8 ]] || wrong "gpt_batch took more than the tokens"
    refuses 2 '--memory-budget: ' "$batch" --batch-tokens 1000 --memory-budget much
  fi
  succeeds "${quick[@]}" --out accumulated --accumulate 3 --no-save
  succeeds "${quick[@]}" --out by_tokens --batch-tokens 6000 --no-save
  has by_tokens/log.jsonl '"accumulate": 3,'
  has out '^--batch-tokens 6000: the nearest is 6144, 3 batches of 16 x 128$'
  [[ $(losses accumulated) == "$(losses by_tokens)" ]] || wrong "--batch-tokens is not --accumulate"
  # The loss of a step is the mean of its batches: a model that knows nothing yet gives each of 256 bytes the same
  # chance, ln 256 = 5.55.
  awk -F'"loss": ' '/"loss"/ { exit !($2 + 0 > 5.3 && $2 + 0 < 5.8) }' accumulated/log.jsonl ||
    wrong "the first loss of three batches: $(losses accumulated | head -n 2)"

  # What is computed again changes memory, not the losses; the least budget named is one that works.
  succeeds "${quick[@]}" --out plain --dropout 0.1 --memory-report step.json
  has out 'planned, the process.s peak [0-9]+ MiB'
  # One line an event: the highest count of live bytes, as planned (1) and as measured (2).
  highest() {
    sed -n "s/.*\"pid\":$1,.*\"live bytes, all\",\"args\":{\"all\":\([0-9]*\)}.*/\1/p" step.json | sort -n | tail -1
  }
  [[ -n $(highest 1) && $(highest 1) == "$(highest 2)" ]] || wrong "step.json: the measured peak is not the planned one"
  succeeds "${quick[@]}" --out drawn --memory-report step.svg --no-save
  has step.svg '>planned '
  has step.svg '>measured '
  succeeds "${quick[@]}" --out paged --memory-report step.html --no-save
  has step.html 'The measured peak is the planned one, to the byte'
  has step.html "<td>peak</td><td>$planned</td><td>[^<]*</td><td>$planned</td>"
  # A run without a step to measure has the plan.
  # Where the time goes.
  succeeds "$train" --data text --steps 3 --sample 0 --no-save --out profiled --profile
  has out '^3 steps of [0-9.]* ms, [0-9]* % of it within operations$'
  has profiled/profile.txt '^linear +backward +16 '
  has profiled/profile.txt '^(at its best, this machine would take |the machine did less when its best was measured )'
  succeeds "$train" --data text --steps 1 --sample 0 --no-save --out single --memory-report single.html
  has single.html "<td>peak</td><td>$planned</td>"
  "${quick[@]}" --dropout 0.1 --memory-budget 1MiB >out 2>err && wrong "1 MiB was enough"
  least=$(sed -n 's/.* is \([0-9]*\)MiB$/\1/p' err)
  [[ $least -lt $whole ]] || wrong "the least budget, '$least', is not below $whole MiB"
  local i=0 choice
  for choice in "--checkpoint blocks" "--checkpoint attention" "--checkpoint matmul" "--checkpoint keep:linear,gelu" \
    "--checkpoint drop:layer_norm" "--memory-budget ${least}MiB" "--memory-budget $(((least + whole) / 2))MiB"; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    succeeds "${quick[@]}" --out "choice$i" --dropout 0.1 $choice
    [[ $(losses plain) == "$(losses "choice$i")" ]] || wrong "the losses depend on $choice"
  done
  # What lies in a file, and a bound that no norm reaches, change nothing.
  succeeds "$train" --plan --offload . --checkpoint offload:linear
  has out '^optimizer states in a file: '
  has out '^results kept in the file: '
  succeeds "${quick[@]}" --out filed --dropout 0.1 --skip-spikes 1e9 --offload . --checkpoint offload:linear \
    --memory-report filed.html
  cmp -s plain/model.safetensors filed/model.safetensors || wrong "the weights depend on --offload"
  "${quick[@]}" --dropout 0.1 --offload . --memory-budget 1MiB >out 2>err && wrong "1 MiB was enough with --offload"
  succeeds "${quick[@]}" --out "filed$i" --dropout 0.1 --offload . \
    --memory-budget "$(sed -n 's/.* is \([0-9]*\)MiB$/\1/p' err)MiB"
  cmp -s plain/model.safetensors "filed$i/model.safetensors" || wrong "the weights depend on a budget with --offload"
  refuses 1 'nowhere: .*No such file or directory' "${quick[@]}" --out unfiled --offload nowhere
  [[ ! -e unfiled ]] || wrong "a run without its file has a folder"
}

model() {
  succeeds "${quick[@]}" --out run
  succeeds "$sample" run/model.safetensors --prompt "the " --count 30 --top-k 5 --seed 3
  cp out one
  [[ $(wc -c <one) -eq 35 ]] || wrong "30 bytes after a prompt of 4 and a newline are $(wc -c <one)"
  succeeds "$sample" run/model.safetensors --prompt "the " --count 30 --top-k 5 --seed 3
  cmp -s out one || wrong "the same seed wrote another text"

  cannot_print() { "$@" >/dev/full; }
  refuses 1 'the output could not be written' cannot_print "$sample" run/model.safetensors --count 5
  refuses 1 'nowhere: no such file' "$sample" nowhere
  refuses 1 'not a safetensors file' "$sample" text
  head -c 100000 run/model.safetensors >cut
  refuses 1 'cut: holds .* bytes of values; its header describes' "$sample" cut
  sed 's/"dtype":"F32"/"dtype":"I32"/g; s/"crc32c":/"edited":/' run/model.safetensors >whole
  refuses 1 "whole: '.*' is stored as I32, which is not a floating-point type to convert to F32" "$sample" whole
  flip run/model.safetensors 500000 >flipped
  refuses 1 'flipped: is damaged: its checksum is ' "$sample" flipped
  sed 's/"width":"128"/"width":"129"/' run/model.safetensors >other
  refuses 1 'other: its width is 129, and this program was compiled for 128' "$sample" other
}

# The model is tiny, with its sizes given: the trainer of the release build has the same ones, so that ccache has
# compiled it before.
script() {
  source "$scripts/setup.sh"
  local missing tree tiny=(--layers 4 --heads 4 --width 128 --context 128 --vocabulary 256 --batch 16)
  missing=$(gradus_missing build)
  if [[ -n $missing ]]; then  # which train.sh would install: not for a test to do
    echo "left out, because packages are missing: ${missing//$'\n'/, }"
    return
  fi
  tree=$(cd "$scripts/.." && pwd)
  mkdir -p "$tree/build"
  # Tests of two presets may run at once, and both compile in build/train.
  alone() { flock "$tree/build/train.lock" "$@"; }
  command -v flock >/dev/null || alone() { "$@"; }

  succeeds alone "$scripts/train.sh" --data text "${tiny[@]}" --steps 2 --sample 5 --out run --threads 1
  has out '^compiled for these sizes in [0-9]+ s$'
  has out '^gpt: 4 layers, width 128, 4 heads, context 128, fp32, .* parameters$'
  has out '^batch 16: 2048 tokens an update;'
  has out '^machine: 1 thread, '
  has out '^run folder run$'
  has out '^step +2  loss .* validation '
  has out '^a sample:$'
  [[ -s run/model.safetensors ]] || wrong "no model was saved"
  local build=$tree/build/train/gpt2-4-4-128-128-256-16-fp32-adamw-cpu
  has "$build/compile_commands.json" 'GPT_BATCH=16 .*GPT_CONTEXT=128 .*GPT_HEADS=4 .*GPT_LAYERS=4 .*GPT_PRECISION=fp32 .*GPT_VOCABULARY=256 .*GPT_WIDTH=128 '
  succeeds "$build/examples/gpt_sample" run/model.safetensors --count 3
  [[ $(wc -c <out) -ge 3 ]] || wrong "gpt_sample wrote nothing"

  if command -v flock >/dev/null; then
    # Another train.sh compiles for the same sizes.
    flock "$build/lock" sleep 3 &
    sleep 1
    succeeds alone "$scripts/train.sh" --data text "${tiny[@]}" --plan
    has out '^waiting for another process, which compiles for these sizes$'
    wait
  fi

  # It is resumed with the flags that it was started with; those that are given again override them.
  succeeds alone "$scripts/train.sh" --resume run --steps 4
  has out '^machine: 1 thread, '
  has out '^resumed after step 2$'
  has out '^step +4  loss .* validation '
  refuses 2 '--resume: nowhere: no such folder' "$scripts/train.sh" --resume nowhere
  refuses 2 "--resume: .*: no run of gradus train: it has no file 'config'" "$scripts/train.sh" --resume .
  refuses 2 '--model: a resumed run keeps the model' "$scripts/train.sh" --resume run --model nano
  mkdir bad
  echo bogus = 1 >bad/config
  refuses 2 "gradus train: bad/config: there is no flag 'bogus'" "$scripts/train.sh" --resume bad
  echo bogus >bad/config
  refuses 2 "gradus train: bad/config: line 1: must be 'name = value', not 'bogus'" "$scripts/train.sh" --resume bad
  # And repeated with its configuration, whatever its line ends.
  sed 's/$/\r/' run/config >windows
  succeeds alone "$scripts/train.sh" --config windows --out repeated --steps 2 --threads 1
  [[ $(grep '^threads' repeated/config) == 'threads = 1' ]] ||
    wrong "a flag that was given does not take the place of the configuration's"
  [[ $(losses repeated) == "$(losses run | head -n 2)" ]] || wrong "the repeated run has other losses"
  refuses 2 '--config and --resume: give one of them' "$scripts/train.sh" --config run/config --resume run
  mv windows repeated/config
  succeeds alone "$scripts/sample.sh" repeated --count 3

  # Another run starts from its weights, whose sizes the script takes over.
  succeeds alone "$scripts/train.sh" --init run --data text --batch 16 --steps 2 --sample 0 --out tuned --threads 1
  has out '^starting from run/model.safetensors$'
  has tuned/config '^layers = 4$'
  mv run away
  succeeds alone "$scripts/train.sh" --resume tuned --steps 3
  has out '^resumed after step 2$'
  mv away run

  # Ctrl-C in a terminal goes to the script, the trainer and tee.
  set -m
  alone "$scripts/train.sh" --data text "${tiny[@]}" --minutes 10 --out interrupted 2>err | tee log >/dev/null &
  wait_for interrupted/log.jsonl '"step": 2'
  kill -INT -- "-$(jobs -p | tail -n 1)"
  wait
  set +m
  for _ in $(seq 1800); do  # flock did not wait for it
    if [[ -s interrupted/model.safetensors ]]; then break; fi
    sleep 0.1
  done
  succeeds "$build/examples/gpt_sample" interrupted/model.safetensors --count 1

  succeeds alone "$scripts/train.sh" "${tiny[@]}" --plan --memory-report plan.html
  has out '^peak +[0-9.]+ MiB'
  has plan.html 'Peak [0-9.]+ MiB'
  [[ ! -e runs ]] || wrong "a run folder was made that nobody asked for"
}

case $group in
  flags | text | data | runs | signals | disk | resume | memory | model | script) "$group" ;;
  *) echo "$0: no group '$group'" >&2; exit 2 ;;
esac
[[ $failures -eq 0 ]] || { echo "$failures checks failed"; exit 1; }
