#!/usr/bin/env python3
"""Holds WordPiece, BERT's normalizer and Llama 3's pattern against Hugging Face's tokenizers on random Unicode.

    pip install tokenizers==0.23.3
    g++ -std=c++20 -O2 -Iinclude tests/parity/tokenizers/encode.cpp -o encode
    python3 tests/parity/compare_bert_llama3.py ./encode [seed]

Prints one line a comparison, and ends with status 1 where anything differs. Not part of the tests, which have recorded
files of make_tokenizer_fixtures.py.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from make_tokenizer_fixtures import MORE, break_utf8, llama3, mixed_text, wordpiece
from tokenizers import normalizers, pre_tokenizers

POINTS = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
failures = 0


def compare(what, program, arguments, lines, expected):
    """Holds the lines that the program prints against those expected."""
    global failures
    start = time.perf_counter()
    text = "\n".join(lines) + "\n"
    ours = subprocess.run([program, *map(str, arguments)], input=text, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    found = ours.stdout.split("\n")[:-1]
    differing = [i for i, (a, b) in enumerate(zip(found, expected)) if a != b]
    fine = len(found) == len(expected) and not differing
    failures += not fine
    print(f"{'equal   ' if fine else 'DIFFERENT'} {what}: {len(lines)} texts; {seconds:.1f} s here", flush=True)
    for i in differing[:3]:
        print(f"    {lines[i]}\n    here  {found[i]}\n    there {expected[i]}")


def random_texts(rng, count):
    nfd = normalizers.NFD().normalize_str
    odd = [c for c in POINTS if ord(c) < 0x250 or nfd(c) != c or nfd("\u0334" + c) != nfd(c + "\u0334")]
    for _ in range(count):
        kind, size = rng.random(), rng.randint(0, 60)
        if kind < 0.25:
            yield "".join(rng.choice(POINTS) for _ in range(size))
        elif kind < 0.5:
            yield "".join(rng.choice(odd) for _ in range(size))
        elif kind < 0.75:
            yield "".join(rng.choice(MORE + [" ", "\n", "'", "1"]) for _ in range(size // 3))
        else:
            yield mixed_text(rng, size)


def main():
    program, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = random.Random(seed)
    texts = list(random_texts(rng, 50_000))
    print(f"seed {seed}: {len(POINTS)} code points, {len(texts)} texts of {sum(map(len, texts))} characters",
          flush=True)
    lines = [t.encode().hex() for t in POINTS + texts]
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    for flags in ((True,) * 4, (True, True, False, False), (False, False, True, False), (False, False, False, True)):
        normalize = normalizers.BertNormalizer(*flags).normalize_str
        expected = []
        for text in map(normalize, POINTS + texts):
            expected.append("|".join(part.encode().hex() for part in [text] + [word for word, _ in split(text)]))
        digits = "".join(str(int(f)) for f in flags)
        compare(f"BertNormalizer {digits} and BertPreTokenizer", program, ["normalize", digits], lines, expected)
    raw = [t.encode() for t in texts] + [break_utf8(rng, mixed_text(rng, 200), 3) for _ in range(10_000)]
    readable = [r.decode("utf8", "replace") for r in raw]
    train = mixed_text(rng, 50_000)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "tokenizer.json"
        for ignore_merges in (True, False):
            tokenizer = llama3(train, 3000, ignore_merges)
            tokenizer.save(str(file))
            coded = tokenizer.encode_batch(readable + POINTS, add_special_tokens=False)
            compare(f"Llama 3's pattern, ignore_merges {ignore_merges}", program, ["llama3", file],
                    [r.hex() for r in raw] + lines[:len(POINTS)], [" ".join(map(str, c.ids)) for c in coded])
        for flags in ((True, True, None, True), (True, True, None, False), (False, False, True, False)):
            tokenizer = wordpiece(train, 3000, flags)
            tokenizer.save(str(file))
            pairs = [(i, rng.randrange(len(raw))) if rng.random() < 0.5 else (i,) for i in range(len(raw))]
            for length in (8, 33, 512):
                tokenizer.enable_truncation(length)
                coded = tokenizer.encode_batch([tuple(readable[i] for i in p) if len(p) > 1 else readable[p[0]]
                                                for p in pairs])
                expected = ["|".join([" ".join(map(str, c.ids)), " ".join(map(str, c.type_ids)),
                                      tokenizer.decode(c.ids, skip_special_tokens=False).encode().hex()])
                            for c in coded]
                compare(f"WordPiece, flags {json.dumps(flags)}, length {length}", program, ["wordpiece", file, length],
                        [" ".join(raw[i].hex() for i in p) for p in pairs], expected)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
