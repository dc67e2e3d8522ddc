#!/usr/bin/env python3
"""Takes a small Llama of Hugging Face's transformers through a fine-tuning on chats, as a user would, and compares what
is exported with transformers, PEFT and llama.cpp.

    pip install torch transformers peft tokenizers sentencepiece gguf llama-cpp-python
    python3 tests/parity/compare_adapters.py [folder to work in]

200 chats, adapters of rank 8 by scripts/train.sh, killed and resumed; a chat by scripts/sample.sh. The run is converted
to a folder of PEFT's, and merged to a folder of transformers' and to a GGUF file. Each is asked what the run was asked,
and must answer with the same text, and stop there. The model is an instruct model as transformers 5 saves one: its chat
template is a file, its texts have two ends, and generation has defaults; all must be in what is exported. Prints one
line a comparison, and ends with status 1 where something differs. Not part of the tests: tests/cli/adapters.sh needs no
Python.
"""
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import torch
from compare_gguf import FAMILIES, byte_level, greedy, llama_greedy, make
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>'"
          " + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
COLOURS = ["red", "green", "blue", "grey", "black"]
failures = 0


def check(what, fine, more=""):
    global failures
    failures += not fine
    print(f"{'equal    ' if fine else 'DIFFERENT'} {what}{more}", flush=True)


def run(*command, say=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, input=say)
    if done.returncode:
        sys.exit(f"status {done.returncode}: {' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def make_instruct(folder):
    """A small model whose files say how chats are written, what ends a text, and how text is generated."""
    FAMILIES["instruct"] = FAMILIES["smollm"][0], byte_level, {"digits": True, "end": "<|im_end|>"}
    make("instruct", folder)
    words = AutoTokenizer.from_pretrained(folder)
    words.chat_template = CHATML
    words.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    ends = [words.eos_token_id, words.convert_tokens_to_ids("!")]
    model.config.bos_token_id, model.config.eos_token_id = words.bos_token_id, ends  # a GGUF file has one beginning
    model.generation_config = GenerationConfig(bos_token_id=words.bos_token_id, eos_token_id=ends, do_sample=True,
                                               temperature=0.6, top_k=20, top_p=0.95, repetition_penalty=1.05)
    model.save_pretrained(folder)


def stated(folder, of_model=True):
    """What a folder says of texts, as transformers reads it."""
    words = AutoTokenizer.from_pretrained(folder)
    said = {"template": words.chat_template, "tokens": words.special_tokens_map}
    if of_model:
        config, generation = AutoConfig.from_pretrained(folder), GenerationConfig.from_pretrained(folder)
        said |= {key: getattr(config, key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
        said["generation"] = {key: value for key, value in generation.to_diff_dict().items()
                              if key not in ("transformers_version", "_from_model_config")}
    return said


def train_and_kill(command, after):
    """Runs the command until it prints a line that begins with `after`, and kills it."""
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as training:
        for line in training.stdout:
            if line.startswith(after):
                subprocess.run(["pkill", "-KILL", "-g", str(training.pid)], check=True)
                break
        else:
            sys.exit(f"the training ended before '{after}'")
    check("the training was killed", training.returncode == -signal.SIGKILL, f" with status {training.returncode}")


def main():
    work = pathlib.Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    theirs, chats, out = work / "theirs", work / "chats.jsonl", work / "run"
    make_instruct(theirs)
    check("the chat template is a file", (theirs / "chat_template.jinja").exists())
    rng = random.Random(4)
    with open(chats, "w", encoding="utf8") as file:
        for _ in range(200):
            colour = rng.choice(COLOURS)
            file.write(json.dumps({"messages": [{"role": "user", "content": f"colour {colour}?"},
                                                {"role": "assistant", "content": f"it is {colour}"}]}) + "\n")

    train = [ROOT / "scripts/train.sh", "--init", theirs, "--data", chats, "--lora", 8, "--batch", 4, "--steps", 120,
             "--lr", "1e-2", "--eval-every", 20, "--save-every", 20, "--sample", 0, "--out", out]
    train_and_kill(train, "step    60")
    print(run(ROOT / "scripts/train.sh", "--resume", out).splitlines()[-3], flush=True)
    ask = "colour blue?"
    said = run(ROOT / "scripts/sample.sh", out, "--chat", "--temperature", 0, say=ask + "\n").strip()
    check("what the run answers", said == "it is blue", f": '{said}'")

    convert = ROOT / "scripts/gradus.sh", "convert", out, "--out"
    run(*convert, work / "peft")
    run(*convert, work / "merged", "--merge")
    run(*convert, work / "merged.gguf", "--merge", "--type", "f32")
    run(ROOT / "scripts/gradus.sh", "convert", work / "merged.gguf", "--out", work / "of_gguf")
    wanted = stated(theirs)
    for name in ("merged", "of_gguf", "peft"):
        found = stated(work / name, name != "peft")
        other = [key for key in found if found[key] != wanted[key]]
        check(f"what {name} says of texts", not other, "".join(f"; {key}: {found[key]}" for key in other))
    words = AutoTokenizer.from_pretrained(work / "merged")
    prompt = words.apply_chat_template([{"role": "user", "content": ask}], add_generation_prompt=True)
    prompt = list(prompt["input_ids"]) if hasattr(prompt, "keys") else list(prompt)
    count = len(words(said)["input_ids"])
    merged, logits = greedy(AutoModelForCausalLM.from_pretrained(work / "merged", dtype=torch.float32).eval(), prompt,
                            count)
    check("the merged model in transformers", words.decode(merged) == said, f": '{words.decode(merged)}'")

    model = AutoModelForCausalLM.from_pretrained(work / "merged", dtype=torch.float32).eval()
    written = model.generate(torch.tensor([prompt]), do_sample=False, repetition_penalty=1.0, max_new_tokens=40)
    text = words.decode(written[0, len(prompt):], skip_special_tokens=True)
    check("transformers stops where the model stops", text == said, f": '{text}'")

    from peft import PeftModel
    base = AutoModelForCausalLM.from_pretrained(theirs, dtype=torch.float32)
    adapted, own = greedy(PeftModel.from_pretrained(base, work / "peft").eval(), prompt, count)
    check("the adapters in PEFT", adapted == merged and abs(own - logits).max() < 1e-4 * abs(logits).max(),
          f", logits within {abs(own - logits).max() / abs(logits).max():.1e} of the largest")

    import gguf
    fields = gguf.GGUFReader(work / "merged.gguf").fields
    ends = [fields[f"tokenizer.ggml.{key}_token_id"].contents() for key in ("eos", "eot")]
    check("the ends in the GGUF file", ends == wanted["eos_token_id"], f": {ends}")
    check("the chat template in the GGUF file", fields["tokenizer.chat_template"].contents() == CHATML)
    import llama_cpp
    llama = llama_cpp.Llama(str(work / "merged.gguf"), n_ctx=128, verbose=False, logits_all=True, n_threads=2,
                            type_k=0, type_v=0)
    found, own = llama_greedy(llama, prompt, count)
    check("the merged model in llama.cpp", found == merged,
          f", logits within {abs(own - logits).max() / abs(logits).max():.1e} of the largest")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
