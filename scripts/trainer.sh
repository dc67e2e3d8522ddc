# Sourced by train.sh, train-bert.sh and sample.sh: which trainer is compiled for a model, and where; checks of flags.
# numbers: fine

# gradus_sizes ARCHITECTURE: the names of its sizes, as variables; fails if there is no such architecture.
gradus_sizes() {
  case $1 in
    gpt2) echo layers heads width context vocabulary ;;
    llama) echo layers heads width context vocabulary kv_heads hidden tied ;;
    *) return 1 ;;
  esac
}

# gradus_launched: of a process that mpirun or srun started, the variables launched_ranks and launched_rank, the number
# of processes and that of this one; otherwise launched_ranks is empty.
gradus_launched() {
  local tasks=${SLURM_STEP_NUM_TASKS:-1} name
  launched_ranks="" launched_rank=0
  if [[ -n ${OMPI_COMM_WORLD_SIZE:-} ]]; then  # Open MPI's mpirun
    launched_ranks=$OMPI_COMM_WORLD_SIZE launched_rank=$OMPI_COMM_WORLD_RANK
  elif [[ -n ${PMI_SIZE:-} ]]; then  # MPICH's, and srun --mpi=pmi2
    launched_ranks=$PMI_SIZE launched_rank=${PMI_RANK:-0}
  elif [[ -n ${PMIX_RANK:-} ]]; then  # srun --mpi=pmix
    launched_ranks=${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}} launched_rank=$PMIX_RANK
  elif [[ ${SLURM_STEP_ID:-} =~ ^[0-9]+$ && $tasks != 1 ]]; then
    launched_rank=${SLURM_PROCID:-0}
    fail "srun has started $tasks processes that know nothing of each other: give it --mpi=pmix (or pmi2)"
  fi
  for name in launched_ranks launched_rank; do
    [[ ${!name:-0} =~ ^[0-9]{1,6}$ ]] || { launched_rank=0; fail "mpirun or srun says '${!name}' for ${name/_/ }"; }
  done
}

# gradus_trainer: from the variables architecture, its sizes, experts and experts_per_token (empty: none), batch,
# precision, optimizer and device, the arrays `definitions`, for CMake, and the folder `build` in which the trainer is
# compiled. Where launched_ranks is not empty, its ranks are processes.
gradus_trainer() {
  local name
  build=$root/build/train/l$layers-h$heads-w$width-c$context-v$vocabulary-b$batch-$precision
  if [[ $architecture == llama ]]; then build+=-llama-k$kv_heads-f$hidden-t$tied; fi
  if [[ ${experts:-0} != 0 ]]; then build+=-e$experts-t$experts_per_token; fi
  if [[ $optimizer != adamw ]]; then build+=-$optimizer; fi
  definitions=(-DGPT_ARCHITECTURE="$architecture" -DGPT_DEVICE="$device" -DGPT_PRECISION="$precision"
    -DGPT_OPTIMIZER="$optimizer" -DGRADUS_BUILD_TESTS=OFF -DGRADUS_BUILD_BENCHMARKS=OFF)
  for name in $(gradus_sizes "$architecture") batch; do definitions+=("-DGPT_${name^^}=${!name}"); done
  if [[ ${experts:-0} != 0 ]]; then
    definitions+=(-DGPT_EXPERTS="$experts" -DGPT_EXPERTS_PER_TOKEN="$experts_per_token")
  fi
  if [[ $device == cuda ]]; then
    build+=-cuda
    definitions+=(-DGRADUS_CUDA=ON "-DGRADUS_CUDA_PTX=${GRADUS_CUDA_LAUNCHER:+ON}")
    # For the GPU that is here; a plan needs none.
    if [[ -e /dev/nvidiactl || -e /dev/dxg ]]; then definitions+=(-DCMAKE_CUDA_ARCHITECTURES=native); fi
  else
    definitions+=(-DGRADUS_CUDA=OFF)
  fi
  if [[ -n ${launched_ranks:-} ]]; then
    build+=-mpi
    definitions+=(-DGRADUS_MPI=ON -DGPT_MPI=ON)
  else
    definitions+=(-DGRADUS_MPI=OFF)
  fi
}

# The checks below say what the trainer would say, before a minute of compiling. They end by fail(), which the script
# defines.

# check_value FLAG VALUE [MUST]: MUST in place of what the flag must be in train.sh.
check_value() {
  local must=${3:-} number='^([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$' fine=1
  case ${must:+given}$1 in
    given*) ;;
    --layers | --heads | --width | --context | --batch | --vocabulary | --experts | --experts-per-token | \
      --kv-heads | --hidden | --positions | --labels | --length)
      must="a whole number above 0 (and below a million)" ;;
    --tied) must="0 or 1" ;;
    --steps) must=1..4294967295 ;;
    --batch-tokens) must=1..2147483648 ;;
    --accumulate) must=1..1000 ;;
    --eval-every) must=1..9223372036854775807 ;;
    --warmup) must=0..9223372036854775807 ;;
    --seed) must=0..18446744073709551615 ;;
    --threads) must=0..4096 ;;
    --workers) must=0..64 ;;
    --keep-checkpoints) must=1..100 ;;
    --ranks | --leaves) must="a power of two from 1 to 4096" ;;
    --shard) must="nothing, states, gradients or parameters" ;;
    --sums) must="tree or fastest" ;;
    --sample) must=0..2147483647 ;;
    --minutes | --lr) must="a positive number" ;;
    --weight-decay | --clip | --save-retry) must="0 or more" ;;
    --dropout) must="at least 0 and below 1" ;;
    --validation) must="between 0 and 1" ;;
    --schedule) must="constant, linear, cosine or wsd" ;;
    --order) must="random or shuffled" ;;
    --checkpoint) must="none, blocks, attention, matmul, keep:OPERATION,... or drop:OPERATION,..." ;;
    --save-every) must="a number of steps, such as 100, or a time, such as 30s, 5m or 1h" ;;
    --memory-budget) must="a number and a unit, such as 600MiB or 1.5GiB" ;;
    --memory-report) must="a file named *.html or *.json" ;;
    *) return ;;
  esac
  case $must in
    *..[0-9]*)
      is_whole "$2" "${must%..*}" "${must#*..}" || fine=0
      must="a whole number from ${must%..*} to ${must#*..}" ;;
    "a whole number above 0"*) [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || fine=0 ;;
    "a positive number") [[ $2 =~ $number ]] && is_double "$2" 1 || fine=0 ;;
    "0 or more") [[ $2 =~ $number ]] && is_double "$2" 0 || fine=0 ;;
    "at least 0 and below 1") [[ $2 =~ $number ]] && is_double "$2" 0 && is_below_1 "$2" || fine=0 ;;
    "between 0 and 1") [[ $2 =~ $number ]] && is_double "$2" 1 && is_below_1 "$2" || fine=0 ;;
    "a power of two"*) [[ $2 =~ ^0*(1|2|4|8|16|32|64|128|256|512|1024|2048|4096)$ ]] || fine=0 ;;
    *OPERATION*)
      [[ $2 =~ ^(none|blocks|attention|matmul|(keep|drop):[^,]+(,[^,]+)*)$ ]] || fine=0 ;;
    *steps*) is_whole "$2" 0 4294967295 || [[ $2 =~ ^([0-9]+\.?[0-9]*|\.[0-9]+)[smh]$ ]] || fine=0 ;;
    *unit*) [[ $2 =~ ^[0-9]+(\.[0-9]+)?\ *([kKMGT]?B|[KMGT]iB)$ && $2 == *[1-9]* ]] || fine=0 ;;
    *html*) [[ $2 == *.html || $2 == *.json ]] || fine=0 ;;
    *) [[ ", ${must/ or /, }, " == *", $2, "* ]] || fine=0 ;;
  esac
  [[ $fine -eq 1 ]] || fail "$1 must be $must, not $2"
}
is_whole() {  # NUMBER LEAST MOST, of any length
  [[ $1 =~ ^0*([0-9]+)$ ]] || return 1
  local n=${BASH_REMATCH[1]}
  [[ ${#n} -lt ${#3} || (${#n} -eq ${#3} && ! $n > $3) ]] && [[ $2 == 0 || $n != 0 ]]  # the least is 0 or 1
}
# is_double NUMBER NONZERO: it has a value as a double, 1e-400 and 1e999 have none; with NONZERO 1, 0 has none either
is_double() {
  [[ $2 == 0 && ! ${1%%[eE]*} == *[1-9]* ]] ||
    awk -v x="$1" 'BEGIN { exit !(x + 0 > 0 && x + 0 <= 1.7976931348623157e308) }'
}
is_below_1() { awk -v x="$1" 'BEGIN { exit !(x + 0 < 1) }'; }
# check_cuda PLAN: the compiler, and, unless PLAN is 1, a GPU.
check_cuda() {
  command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] ||
    fail "--device cuda: there is no nvcc: install the CUDA toolkit (with cuBLAS)," \
      "or leave --device out to train on the CPU"
  # A GPU's driver makes one of these; an emulator, which GRADUS_CUDA_LAUNCHER starts, needs none.
  if [[ -z ${GRADUS_CUDA_LAUNCHER:-} && $1 == 0 && ! -e /dev/nvidiactl && ! -e /dev/dxg ]]; then
    fail "--device cuda: there is no NVIDIA GPU here, or no driver for it; leave --device out to train on the CPU"
  fi
}
