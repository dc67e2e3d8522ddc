#!/usr/bin/env bash
# cudnn_headers.sh COMPILER INCLUDE CUDA CUDNN FRONTEND: gpu/cudnn_attention.cpp compiles without a warning. The last
# three are the folders of the headers of CUDA, cuDNN and cudnn-frontend; without the last two the test is skipped.
set -euo pipefail
for header in "$4/cudnn.h" "$5/cudnn_frontend.h"; do
  [[ -e $header ]] || { echo "skipped: there is no $header"; exit 77; }
done
"$1" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only -DGRADUS_WITH_CUDNN=1 -I"$2" \
  -isystem "$3" -isystem "$4" -isystem "$5" "$2/gradus/gpu/cudnn_attention.cpp"
