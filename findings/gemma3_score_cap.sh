#!/usr/bin/env bash
# Expected: 'attn_logit_softcapping' caps the scores of attention in Gemma 3 as in Gemma 2: both classes have the key.
# So it is: Gemma 3's attention keeps the number and does not use it; its logits are those of a model without a cap.
#
#   findings/gemma3_score_cap.sh     in a temporary folder; PYTHON=... takes an interpreter that has the packages
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=${PYTHON:-$folder/venv/bin/python}
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv"
  "$python" -m pip install -q torch==2.15.0 transformers==5.24.0
fi
"$python" - <<'END'
import sys
import torch
import transformers

def logits(name, cap):
    torch.manual_seed(1)
    config = getattr(transformers, name)(
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=32, head_dim=8,
        intermediate_size=48, vocab_size=50, max_position_embeddings=64, query_pre_attn_scalar=8, sliding_window=16,
        final_logit_softcapping=30.0, attn_logit_softcapping=cap)
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(torch.randn_like(p) * 0.3)
        torch.manual_seed(2)
        return made(torch.randint(0, 50, (1, 20))).logits

print("transformers", transformers.__version__)
changes = {}
for name in ("Gemma2Config", "Gemma3TextConfig"):
    changes[name] = (logits(name, 1.0) - logits(name, None)).abs().max().item()
    print(f"{name}: a cap of 1 changes logits by {changes[name]:.3g}")
sys.exit(0 if changes["Gemma2Config"] > 0.1 and changes["Gemma3TextConfig"] == 0 else 1)
END
