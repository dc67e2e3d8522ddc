#!/usr/bin/env python3
"""Takes a GPT-2 of Hugging Face's transformers through scripts/train.sh --init and back, and compares.

    pip install torch transformers
    python3 tests/parity/compare_fine_tuning.py [folder to work in]

A small random GPT-2 in several files, with a BPE that was trained on one text, is fine-tuned on another text and
exported by gpt_convert. AutoModelForCausalLM and AutoTokenizer load the export: the logits must be those of gradus
within 1e-4, and the tokens those that gpt_tokens makes. And a folder with nothing but pytorch_model.bin becomes one
that is read by the command that the message names. Prints one line a comparison, and ends with status 1 where something
differs. Not part of the tests: tests/cli/fine_tuning.sh needs no Python.
"""
import array
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import torch
from make_tokenizer_fixtures import mixed_text, train
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = {"layers": 2, "heads": 4, "width": 64, "context": 32, "vocabulary": 600}
BATCH = 6
failures = 0


def check(what, fine, more=""):
    global failures
    failures += not fine
    print(f"{'equal    ' if fine else 'DIFFERENT'} {what}{more}", flush=True)


def run(*command, status=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != status:
        sys.exit(f"status {done.returncode}, not {status}: {' '.join(map(str, command))}\n{done.stderr}")
    return done.stderr if status else done.stdout


def make_folder(folder, text):
    """A random GPT-2 in several files, and its tokenizer: tokenizer.json alone."""
    torch.manual_seed(5)
    end = SIZES["vocabulary"] - 1
    config = GPT2Config(n_layer=SIZES["layers"], n_head=SIZES["heads"], n_embd=SIZES["width"],
                        n_positions=SIZES["context"], vocab_size=SIZES["vocabulary"], bos_token_id=end,
                        eos_token_id=end)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():  # biases and norms, too
            p.add_(torch.randn_like(p) * 0.05)
    model.save_pretrained(folder, max_shard_size="150KB")
    train(text, SIZES["vocabulary"]).save(str(folder / "tokenizer.json"))
    return model


def main():
    given = sys.argv[1:2]
    work = pathlib.Path(given[0] if given else tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    rng = random.Random(3)
    theirs, text = work / "theirs", work / "text"
    model = make_folder(theirs, mixed_text(rng, 100_000))
    files = len(list(theirs.glob("*.safetensors")))
    print(f"{files} files of a GPT-2 with {model.num_parameters()} parameters in {work}")
    other = mixed_text(rng, 60_000)
    text.write_text(other, "utf8", newline="")
    script = (ROOT / "scripts/train.sh", "--data", text, "--batch", BATCH, "--sample", 0)

    def export(name, *flags):
        said = run(*script, "--out", work / name, *flags).splitlines()
        print(next(line for line in said if line.startswith("validation loss")), flush=True)
        sizes = "l{layers}-h{heads}-w{width}-c{context}-v{vocabulary}".format(**SIZES)
        build = ROOT / f"build/train/{sizes}-b{BATCH}-fp32"
        run("cmake", "--build", build, "--target", "gpt_convert", "gpt_tokens")
        folder = work / f"{name}_exported"
        shutil.rmtree(folder, ignore_errors=True)
        run(build / "examples/gpt_convert", work / name / "model.safetensors", "--out", folder)
        return build, folder

    for old in ("still", "tuned"):
        shutil.rmtree(work / old, ignore_errors=True)
    # A step of next to nothing: the model goes through as it is.
    _, still = export("still", "--init", theirs, "--steps", 1, "--lr", "1e-40", "--weight-decay", 0)
    same = AutoModelForCausalLM.from_pretrained(still).state_dict()
    check("the weights of a run that has not learned",
          all(torch.equal(p, same[name]) for name, p in model.state_dict().items()))

    build, tuned = export("tuned", "--init", theirs, "--steps", 60, "--lr", "1e-3")
    loaded, report = AutoModelForCausalLM.from_pretrained(tuned, output_loading_info=True)
    check("the names of the tensors in the exported folder", not any(report.values()),
          f" {report}" if any(report.values()) else "")
    tokens = torch.randint(0, SIZES["vocabulary"], (BATCH, SIZES["context"]), dtype=torch.int32)
    save_file({"tokens": tokens}, work / "tokens.safetensors")
    run("g++", "-std=c++20", "-O1", "-march=native", f"-I{ROOT}/include", f"-I{ROOT}/examples", f"-DGPT_BATCH={BATCH}",
        *(f"-DGPT_{name.upper()}={size}" for name, size in SIZES.items()),
        ROOT / "tests/parity/fine_tuning/logits.cpp", "-o", work / "logits", "-pthread")
    run(work / "logits", work / "tuned/model.safetensors", work / "tokens.safetensors", work / "logits.safetensors")
    ours = load_file(work / "logits.safetensors")["logits"]
    with torch.no_grad():
        found, before = loaded.eval()(tokens.long()).logits, model(tokens.long()).logits
    difference, learned = (found - ours).abs().max().item(), (before - ours).abs().max().item()
    check("the logits of the fine-tuned model", difference < 1e-4 < learned,
          f" within {difference:.3g}; training moved them by up to {learned:.3g}, "
          f"the largest is {ours.abs().max().item():.3g}")

    words = AutoTokenizer.from_pretrained(tuned)
    shutil.rmtree(work / "shards", ignore_errors=True)
    run(build / "examples/gpt_tokens", "--data", text, "--tokenizer", work / "tuned/tokenizer.json",
        "--validation", 0, "--separator", "", "--out", work / "shards")
    ids = array.array("H", (work / "shards/train.bin").read_bytes()).tolist()
    check(f"{len(ids)} ids of a text of {len(other)} characters", words.encode(other) == ids)
    check("the text that they are decoded to", words.decode(ids) == other)
    check("the token that ends a text",
          words.eos_token_id == loaded.config.eos_token_id == words.convert_tokens_to_ids("<|endoftext|>"))

    # A folder that only PyTorch reads, and the command that the message names.
    pickled = work / "pickled"
    shutil.rmtree(pickled, ignore_errors=True)
    pickled.mkdir()
    shutil.copy(theirs / "config.json", pickled)
    torch.save(model.state_dict(), pickled / "pytorch_model.bin")
    message = run(*script, "--init", pickled, status=2)
    run(sys.executable, "-c", re.search(r"python3 -c '(.*)'$", message.strip()).group(1))
    again = AutoModelForCausalLM.from_pretrained(pickled).state_dict()
    check("the weights that the message makes of pytorch_model.bin",
          (pickled / "model.safetensors").exists() and
          all(torch.equal(p, again[name]) for name, p in model.state_dict().items()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
