# Sourced by train.sh and sample.sh: which trainer is compiled for a model, and where.

# gradus_sizes ARCHITECTURE: the names of its sizes, as variables; fails if there is no such architecture.
gradus_sizes() {
  case $1 in
    gpt2) echo layers heads width context vocabulary ;;
    llama) echo layers heads width context vocabulary kv_heads hidden tied ;;
    *) return 1 ;;
  esac
}

# gradus_trainer: from the variables architecture, its sizes, experts and experts_per_token (empty: none), batch,
# precision, optimizer and device, the arrays `definitions`, for CMake, and the folder `build` in which the trainer is
# compiled.
gradus_trainer() {
  local name
  build=$root/build/train/l$layers-h$heads-w$width-c$context-v$vocabulary-b$batch-$precision
  if [[ $architecture == llama ]]; then build+=-llama-k$kv_heads-f$hidden-t$tied; fi
  if [[ ${experts:-0} -gt 0 ]]; then build+=-e$experts-t$experts_per_token; fi
  if [[ $optimizer != adamw ]]; then build+=-$optimizer; fi
  definitions=(-DGPT_ARCHITECTURE="$architecture" -DGPT_DEVICE="$device" -DGPT_PRECISION="$precision"
    -DGPT_OPTIMIZER="$optimizer" -DGRADUS_BUILD_TESTS=OFF -DGRADUS_BUILD_BENCHMARKS=OFF)
  for name in $(gradus_sizes "$architecture") batch; do definitions+=("-DGPT_${name^^}=${!name}"); done
  if [[ ${experts:-0} -gt 0 ]]; then
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
}
