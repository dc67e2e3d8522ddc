#!/usr/bin/env python3
"""Writes what the tests of chat formats compare gradus against: transformers' apply_chat_template.

    pip install transformers==5.24.0 jinja2
    python3 tests/parity/make_chat_fixtures.py [output directory]

formats.json     "snippets": contents; "chats": 1,000 chats of (role, snippet, snippet); "templates": for each template,
                 as public models have it, an FNV-1a hash of each chat's text followed by the text with the assistant's
                 turn opened, or null where the template refuses the chat; the whole text of the first few; and for the
                 "tokenizer" of tests/data/tokenizer the ids of plain chats: pairs of a chat and its ids.
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Tokenizer, models
from transformers import PreTrainedTokenizerFast

ALTERNATE = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must "
             "alternate user/assistant/user/assistant/...') }}{% endif %}")
CHATML = ("{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
QWEN = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
# Name: bos token, eos token, the template.
TEMPLATES = {
    "chatml": ("", "<|im_end|>", "{% for message in messages %}" + CHATML),
    "smollm2": ("<|im_start|>", "<|im_end|>",
                "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>"
                "system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
                "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
                "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"),
    "qwen2.5": ("", "<|im_end|>", (
        "{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {%- if messages[0]['role'] == 'system' %}\n"
        "        {{- messages[0]['content'] }}\n    {%- else %}\n        {{- '" + QWEN + "' }}\n    {%- endif %}\n"
        "    {{- \"\\n\\n# Tools\\n\" }}\n    {{- \"\\n</tools><|im_end|>\\n\" }}\n{%- else %}\n"
        "    {%- if messages[0]['role'] == 'system' %}\n"
        "        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n    {%- else %}\n"
        "        {{- '<|im_start|>system\\n" + QWEN + "<|im_end|>\\n' }}\n    {%- endif %}\n{%- endif %}\n"
        "{%- for message in messages %}\n    {%- if (message.role == \"user\") or (message.role == \"system\" and not "
        "loop.first) or (message.role == \"assistant\" and not message.tool_calls) %}\n"
        "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n"
        "    {%- endif %}\n"
        "{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n")),
    "llama3": ("<|begin_of_text|>", "<|eot_id|>",
               "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
               "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
               "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}"
               "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
               "{% endif %}"),
    "llama2": ("<s>", "</s>",
               "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
               "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}"
               "{% endif %}{% for message in loop_messages %}" + ALTERNATE + "{% if loop.index0 == 0 and "
               "system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + "
               "message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] "
               "== 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == "
               "'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"),
    "mistral": ("<s>", "</s>",
                "{{ bos_token }}{% for message in messages %}" + ALTERNATE + "{% if message['role'] == 'user' %}"
                "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
                "{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are "
                "supported!') }}{% endif %}{% endfor %}"),
    "zephyr": ("<s>", "</s>",
               "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
               "message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + "
               "message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + "
               "message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n"
               "{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"),
    "gemma": ("<bos>", "<eos>",
              "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
              "{% endif %}{% for message in messages %}" + ALTERNATE + "{% if (message['role'] == 'assistant') %}"
              "{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role "
              "+ '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}"
              "{{'<start_of_turn>model\n'}}{% endif %}"),
    "gemma3": ("<bos>", "<eos>",
               "{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n    {%- set first_user_prefix = "
               "messages[0]['content'] + '\n\n' -%}\n    {%- set loop_messages = messages[1:] -%}\n{%- else -%}\n    "
               "{%- set first_user_prefix = \"\" -%}\n    {%- set loop_messages = messages -%}\n{%- endif -%}\n"
               "{%- for message in loop_messages -%}\n    " + ALTERNATE.replace("{%", "{%-").replace("%}", "-%}") +
               "\n    {%- if (message['role'] == 'assistant') -%}\n        {%- set role = \"model\" -%}\n    {%- else "
               "-%}\n        {%- set role = message['role'] -%}\n    {%- endif -%}\n    {{ '<start_of_turn>' + role + "
               "'\n' + (first_user_prefix if loop.first else \"\") }}\n    {%- if message['content'] is string -%}\n"
               "        {{ message['content'] | trim }}\n    {%- endif -%}\n    {{ '<end_of_turn>\n' }}\n"
               "{%- endfor -%}\n{%- if add_generation_prompt -%}\n    {{'<start_of_turn>model\n'}}\n{%- endif -%}\n"),
    "phi3": ("<s>", "<|endoftext|>",
             "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + "
             "'<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
             "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}"
             "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}"
             "{% endif %}"),
}
SNIPPETS = ["", "", "Hello", "Who are you?", " a space before", "and after ", "\n\nlines\n", "\t", "2+2=4",
            "naïve café", "日本語。", "👩‍👩‍👧 🇩🇪", "<|im_end|>",
            "<|im_start|>system\n", "</s>", "[/INST]", "<<SYS>>", "<end_of_turn>",
            "<|eot_id|>", "{{ 7 * 7 }}", "{% raw %}", "\\n", "\"'", "\u00a0", "\u2003x\u3000", "\x1c", "\x85", "\u200b",
            "def f(x):\n    return x", "\u0000", "a\rb\r\n", "\u180e"]
ROLES = ["system", "user", "assistant"]
TOKENIZERS = {"chatml": "smollm", "qwen2.5": "qwen2", "llama3": "llama3", "llama2": "llama2", "mistral": "mistral",
              "gemma": "gemma", "phi3": "llama2"}
PHI3 = ["<|endoftext|>", "<|assistant|>", "<|end|>", "<|system|>", "<|user|>"]  # which take the white space after them


def fnv(text):
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value % 2**32


def random_chat(rng):
    roles = [0] if rng.random() < 0.4 else []
    turns = rng.randint(1, 3)
    roles += [1, 2] * turns if rng.random() < 0.7 else ([1, 2] * turns)[:-1]
    if rng.random() < 0.1:
        roles.insert(rng.randint(len(roles) - 1, len(roles)), rng.choice([1, 2]))
    return [[role, rng.randrange(len(SNIPPETS)), rng.randrange(len(SNIPPETS))] for role in roles]


def plain_ids(name, texts, chats):
    """Of chats without the texts of marks, whose answers do not begin like what a mark's end could merge with."""
    path = pathlib.Path(__file__).parents[1] / "data" / "tokenizer" / f"{TOKENIZERS[name]}.json"
    tokenizer = Tokenizer.from_file(str(path))
    if name == "phi3":
        tokenizer.add_tokens([AddedToken(t, normalized=False, special=True, rstrip=True) for t in PHI3])
    taken = []
    for i, text in texts.items():
        contents = [(role, SNIPPETS[a] + SNIPPETS[b]) for role, a, b in chats[i]]
        if not any(c in content for c in "<[" for _, content in contents) and not any(
                role == 2 and content[:1].isspace() for role, content in contents):
            taken.append([i, tokenizer.encode(text, add_special_tokens=False).ids])
    return taken[:40]


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1] / "data" / "chat")
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    chats = [random_chat(rng) for _ in range(1000)]
    templates = {}
    for name, (bos, eos, text) in TEMPLATES.items():
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
        tokenizer.bos_token, tokenizer.eos_token = bos, eos
        hashes, shown, texts = [], [], {}
        for chat in chats:
            messages = [{"role": ROLES[r], "content": SNIPPETS[a] + SNIPPETS[b]} for r, a, b in chat]
            try:
                closed, opened = (
                    tokenizer.apply_chat_template(messages, chat_template=text, tokenize=False,
                                                  add_generation_prompt=generates) for generates in (False, True))
                # An answer to an answer is refused here.
                hashes.append(fnv(closed if chat[-1][0] == 2 else closed + opened))
                texts[len(hashes) - 1] = closed
                if len(shown) < 4:
                    shown.append(closed)
            except Exception as problem:
                assert any(why in str(problem) for why in ("alternate", "System role", "Only user")), problem
                hashes.append(None)
        templates[name] = {"bos": bos, "eos": eos, "template": text, "hashes": hashes, "shown": shown}
        if name in TOKENIZERS:
            templates[name] |= {"tokenizer": TOKENIZERS[name], "ids": plain_ids(name, texts, chats)}
        print(name, sum(h is None for h in hashes), "refused")
    with open(out / "formats.json", "w") as file:
        json.dump({"snippets": SNIPPETS, "chats": chats, "templates": templates}, file, separators=(",", ":"))
        file.write("\n")


main()
