#!/usr/bin/env bash
# Expected: PyTorch's gradient of clamp at a bound is 1, be the bound a number or a tensor: x is within the bounds.
# So it is: 0 with a number, 0.5 with a tensor, which shares it with the bound as maximum() does; 1 only inside.
#
#   findings/torch_clamp_bound.sh     in a temporary folder; PYTHON=... takes an interpreter that has the package
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=${PYTHON:-$folder/venv/bin/python}
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv"
  "$python" -m pip install -q torch==2.15.0
fi
"$python" - <<'END'
import sys
import torch

def gradients(low, high):
    x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], requires_grad=True)
    torch.clamp(x, low, high).sum().backward()
    return x.grad.tolist()

print("torch", torch.__version__)
numbers, tensors = gradients(-1.0, 1.0), gradients(torch.tensor(-1.0), torch.tensor(1.0))
print("x                 [-2, -1, 0, 1, 2]")
print("bounds as numbers", numbers)
print("bounds as tensors", tensors)
sys.exit(0 if numbers == [0, 0, 1, 0, 0] and tensors == [0, 0.5, 1, 0.5, 0] else 1)
END
