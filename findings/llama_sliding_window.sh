#!/usr/bin/env bash
# Expected: 'sliding_window' in a Llama's config.json changes nothing, as LlamaConfig has no such key, or always.
# So it is: logits do not change, but generate() with its cache forgets what is behind the window, so its text changes.
#
#   findings/llama_sliding_window.sh     in a temporary folder; PYTHON=... takes an interpreter that has the packages
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

def model(**more):
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=32, intermediate_size=48,
        vocab_size=50, max_position_embeddings=64, bos_token_id=None, eos_token_id=None, **more)
    made = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    return made

plain, windowed = model(), model(sliding_window=5)
torch.manual_seed(2)
ids = torch.randint(0, 50, (1, 20))
with torch.no_grad():
    same_logits = torch.equal(plain(ids, use_cache=False).logits, windowed(ids, use_cache=False).logits)
texts = [m.generate(ids, max_new_tokens=12, do_sample=False, use_cache=cache)[0, 20:].tolist()
         for m in (plain, windowed) for cache in (False, True)]
print("transformers", transformers.__version__)
print("logits with and without the key are equal:", same_logits)
for name, text in zip(("no key, no cache", "no key, cache", "the key, no cache", "the key, cache"), texts):
    print(f"{name:18}", *text)
sys.exit(0 if same_logits and texts[0] == texts[1] == texts[2] != texts[3] else 1)
END
