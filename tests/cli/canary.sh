#!/usr/bin/env bash
# canary.sh SOURCE GRADUS WORK CALLS: hostile values through every flag of the scripts and of the command that they run,
# every entry of a --config, of a run's config and of a model's config.json, in several locales, CALLS of them drawn at
# random (all: every one). None may be executed; each call ends with one line and status 2, or takes the value as it is
# and comes as far as the compiler, for which a stand-in is there. GRADUS_TEST_SEED draws the calls of another run
# again.
set -euo pipefail
[[ $# -eq 4 ]] || { echo "usage: $0 SOURCE GRADUS WORK CALLS|all" >&2; exit 2; }
source=$1 gradus=$2 work=$3 calls=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"/{bin,checkout/include/gradus,checkout/build/command/examples,run,model}
cd "$work"
source "$here/support.sh"

cp -r "$source/scripts" checkout/
cp "$gradus" checkout/build/command/examples/
: >checkout/build/command/build.ninja
printf '#!/bin/sh\nif [ "$1" = --version ]; then echo "cmake version 3.31.0"; exit; fi\ncase "$*" in *gradus_command*) exit ;; esac\necho "error: a stand-in"\nexit 1\n' \
  >bin/cmake
chmod +x bin/cmake
export PATH=$work/bin:$PATH
echo "some text" >text
printf 'text\tlabel\ngood\t1\nbad\t0\n' >labelled.tsv
echo weights >run/model.safetensors
echo weights >model/model.safetensors
echo '{}' >model/tokenizer.json
config_of_a_run=$(printf '%s\n' "layers = 2" "heads = 2" "width = 8" "context = 8" "vocabulary = 256" "batch = 2" \
  "precision = fp32" "optimizer = adamw")
canary=$work/canary

command="touch $canary"
values=("\$($command)" "\`$command\`" "UID[\$($command)]" "a[\$($command)0]" "x;$command" "x & $command" "x|$command"
  "1+\$($command)" "\$((a[\$($command)]))" "{\"\$($command)\"}" "\"; $command; \"" "'; $command; '" "9\$($command)"
  $'1\n'"$command" $'\e]0;title\a' $'\e[2J' "٣" "１２" "1e999999999" "99999999999999999999999999" "0x10" "010" "-1" ""
  " 1" "[a]" "[\$($command)]" "{}" "--" "--help=x" "../../../etc/passwd" "/dev/null" "PATH" "SECONDS" "launched_rank"
  $'\xff\xfe' "=" "a=b.tsv" "%s%n" "*" "~" "$(head -c 3000 /dev/zero | tr '\0' 9)")
locales=(C C.UTF-8 tr_TR.UTF-8 de_DE.UTF-8 fa_IR.UTF-8)
if command -v localedef >/dev/null && [[ -e /usr/share/i18n/locales/tr_TR ]]; then
  mkdir locales
  for name in "${locales[@]:2}"; do localedef -i "${name%.*}" -f UTF-8 "locales/$name" 2>/dev/null || true; done
  export LOCPATH=$work/locales
fi

# Every flag that takes a value, by the scripts' own help.
flags_of() { checkout/scripts/"$1" --help | grep -oE -- '--[a-z][a-z-]+' | sort -u | grep -vxE -- '--help|--no-save'; }
train_flags=$(flags_of train.sh)
names=$(sed 's/^--//' <<<"$train_flags")
sizes="n_layer n_head n_embd n_positions vocab_size model_type num_hidden_layers num_attention_heads hidden_size
  max_position_embeddings num_key_value_heads intermediate_size tie_word_embeddings"
{
  for flag in $train_flags; do echo "train.sh $flag"; done
  for flag in $(flags_of train-bert.sh); do echo "train-bert.sh $flag"; done
  for flag in --device --prompt; do echo "sample.sh $flag"; done
  for flag in --preset --only --jobs; do echo "test.sh $flag"; done
  for script in bench gpu-check docs lint setup; do echo "$script.sh argument"; done
  for name in $names; do echo "config $name"; done
  for name in layers heads width context vocabulary architecture precision optimizer batch; do echo "run $name"; done
  for name in $sizes; do echo "gpt2 $name"; echo "llama $name"; echo "bert $name"; done
} >places
{
  while read -r place name; do
    for i in "${!values[@]}"; do echo "$place $name $i"; done
  done <places
} >every
if [[ $calls != all ]]; then
  seed=${GRADUS_TEST_SEED:-$RANDOM}
  echo "canary: GRADUS_TEST_SEED=$seed"
  shuf -n "$calls" --random-source=<(yes "$seed") every >drawn
else
  cp every drawn
fi

# settings MODEL_TYPE NAME VALUE: a config.json, one of whose entries is the value, as a text and as it is.
settings() {
  local entries="\"model_type\": \"$1\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 8, \"n_positions\": 16"
  entries+=", \"vocab_size\": 300, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"hidden_size\": 8"
  entries+=", \"max_position_embeddings\": 16, \"num_key_value_heads\": 2, \"intermediate_size\": 16"
  entries+=", \"tie_word_embeddings\": true, \"type_vocab_size\": 2"
  # The first of two equal entries may be read, or the last.
  printf '{"%s": "%s", %s, "%s": %s}\n' "$2" "$3" "$entries" "$2" "$3" >model/config.json
}

called=0
while read -r place name i <&4; do
  value=${values[i]}
  locale=${locales[called % 5]}
  called=$((called + 1))
  case $place in
    train.sh) arguments=(train.sh --data text "$name" "$value") ;;
    train-bert.sh) arguments=(train-bert.sh --data labelled.tsv --tokenizer model/tokenizer.json "$name" "$value") ;;
    sample.sh) arguments=(sample.sh run "$name" "$value")
      echo "$config_of_a_run" >run/config ;;
    test.sh) arguments=(test.sh "$name" "$value") ;;
    *.sh) arguments=("$place" "$value") ;;
    config)
      printf '%s = %s\n' "$name" "$value" >config
      arguments=(train.sh --data text --config config) ;;
    run)
      { grep -v "^$name " <<<"$config_of_a_run"; printf '%s = %s\n' "$name" "$value"; } >run/config
      arguments=(sample.sh run) ;;
    gpt2 | llama) settings "$place" "$name" "$value"; arguments=(train.sh --data text --init model) ;;
    bert)
      settings bert "$name" "$value"
      arguments=(train-bert.sh --data labelled.tsv --tokenizer model/tokenizer.json --init model) ;;
  esac
  status=0
  LANG=$locale LC_ALL='' timeout 60 checkout/scripts/"${arguments[@]}" >out 2>err </dev/null || status=$?
  what="$place $name '${value:0:60}' with LANG=$locale"
  if [[ -e $canary ]]; then wrong "executed: $what"; rm -f "$canary"; fi
  if LC_ALL=C grep -q $'\e' out err; then wrong "an escape sequence is printed: $what"; fi
  case $status in
    0 | 1) ;;  # help, or as far as the stand-in
    2) [[ $(wc -l <err) -le 2 ]] || wrong "status 2 and $(wc -l <err) lines: $what" ;;
    *) wrong "status $status: $what" ;;
  esac
  if [[ $status -eq 1 ]] && ! grep -qE 'compiled|configuring failed|PATH|cannot|not|no ' err; then
    wrong "status 1 and '$(head -c 200 err)': $what"
  fi
done 4<drawn
# Letters and digits are those of C, so a flag means the same in every locale.
for locale in "${locales[@]}"; do
  LANG=$locale LC_ALL='' checkout/scripts/train.sh --data text --width 64 --heads 2 >out 2>err || true
  grep -q -- '-64-' err || wrong "LANG=$locale: --width 64 is not taken: $(cat err)"
  LANG=$locale LC_ALL='' checkout/scripts/train.sh --data text --architecture llama --hidden 96 >out 2>err || true
  grep -q -- '-96-' err || wrong "LANG=$locale: --hidden 96 is not taken: $(cat err)"
  LANG=$locale refuses 2 'width must be' env LC_ALL= checkout/scripts/train.sh --data text --width "٣٢"
done
# Sizes that are not given follow from others, and the folder of the trainer has them all.
for sizes in "--architecture llama:llama-4-4-128-128-256-4-352-1-16-fp32-adamw-cpu" \
  "--model llama-15m --tied 0:llama-6-6-288-256-32000-6-768-0-8-fp32-adamw-cpu" \
  "--experts 8 --optimizer lion:gpt2-4-4-128-128-256-8-2-16-fp32-lion-cpu"; do
  read -ra flags <<<"${sizes%%:*}"
  checkout/scripts/train.sh --data text "${flags[@]}" >out 2>err || true
  grep -q -- "/${sizes#*:}/" err || wrong "${sizes%%:*}: $(cat err)"
done
echo "canary: $called calls"
[[ $failures -eq 0 ]]
