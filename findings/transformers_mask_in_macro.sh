#!/usr/bin/env bash
# Expected: return_assistant_tokens_mask marks what `{% generation %}` holds, wherever a chat template writes it.
# So it is: in a macro, a block that is set or a recursive loop other tokens are marked: those from where that began.
#
#   findings/transformers_mask_in_macro.sh     in a temporary folder; PYTHON=... takes an interpreter with the packages
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=${PYTHON:-$folder/venv/bin/python}
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv"
  "$python" -m pip install -q transformers==5.24.0 jinja2==3.1.6
fi
"$python" - <<'END' 2>/dev/null
import sys
from importlib.metadata import version
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

words = ["user", "assistant", ":", "hello", "good", "morning", "?"]
inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="?"))
inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="?")
chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good morning"}]

ANSWER = "assistant : {% generation %}{{ m.content }}{% endgeneration %}"
TURNS = "{% for m in messages %}{% if m.role == 'user' %}user : {{ m.content }} {% else %}ANSWER{% endif %}{% endfor %}"
templates = {"in the loop": TURNS.replace("ANSWER", ANSWER),
             "in a macro": "{% macro said(m) %}" + ANSWER + "{% endmacro %}" + TURNS.replace("ANSWER", "{{ said(m) }}")}
print("transformers", version("transformers"), "jinja2", version("jinja2"))
marked = []
for name, template in templates.items():
    made = tokenizer.apply_chat_template(
        chat, chat_template=template, return_dict=True, return_assistant_tokens_mask=True)
    marked.append([words[i] for i, one in zip(made["input_ids"], made["assistant_masks"]) if one])
    print(f"{name:12} {' '.join(words[i] for i in made['input_ids'])}   marked: {' '.join(marked[-1])}")
sys.exit(0 if marked[0] == ["good", "morning"] and marked[1] != marked[0] else 1)
END
