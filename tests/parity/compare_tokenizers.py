#!/usr/bin/env python3
"""Holds tokenizers against Hugging Face's: each part, and each family of open models, on all code points and random
texts.

    pip install tokenizers==0.23.3 sentencepiece
    g++ -std=c++20 -O2 -DGRADUS_WITH_PCRE2 -Iinclude tests/parity/tokenizers/encode.cpp -o encode -lpcre2-8
    python3 tests/parity/compare_tokenizers.py ./encode [families|parts|all] [seed] [name...]

For each, the ids of texts and of pairs cut to a length, their segments, and the text that is decoded from them. Prints
one line for each, and ends with status 1 where anything differs. Not part of the tests, which have recorded files of
make_tokenizer_fixtures.py.
"""
import itertools
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import tokenizer_families
from make_tokenizer_fixtures import MORE, mixed_text

POINTS = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
failures = 0


def texts_of(rng, count):
    """All code points, each in a place of its own, and random texts."""
    for i in range(0, len(POINTS), 9):
        yield "a".join(POINTS[i:i + 9]) + rng.choice(["", " ", "\n", "e\u0301", "'s"]) + "".join(POINTS[i:i + 9])
    words = MORE + [" ", "\n", "'", "1", "the", "Dear", " the ", "s,", "<|endoftext|>", "<s>", "e", "|", "▁", "#"]
    mixed = mixed_text(rng, 200_000)
    for _ in range(count):
        kind, size = rng.random(), rng.randint(0, 60)
        if kind < 0.15:
            yield "".join(rng.choice(POINTS) for _ in range(size))
        elif kind < 0.3:
            yield "".join(chr(rng.randint(*rng.choice(
                [(0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x600, 0x6FF), (0x1100, 0x11FF)]))) for _ in range(size))
        elif kind < 0.7:
            yield "".join(rng.choice(words) for _ in range(size // 2))
        else:
            at = rng.randrange(len(mixed))
            yield mixed[at:at + size]


def compare(what, program, file, tokenizer, texts, pairs):
    """Holds what the program prints against what the tokenizer says."""
    global failures
    tokenizer.save(str(file))
    start = time.perf_counter()
    lines = [t.encode().hex() for t in texts] + [
        f"{a.encode().hex() or '-'} {b.encode().hex() or '-'} {most}" for a, b, most in pairs]
    ours = subprocess.run([program, file], input="\n".join(lines) + "\n", capture_output=True, text=True)
    seconds = time.perf_counter() - start
    coded = tokenizer.encode_batch(texts)
    for _, most in itertools.groupby(pairs, lambda pair: pair[2]):
        some = list(most)
        tokenizer.enable_truncation(some[0][2])
        coded += tokenizer.encode_batch([pair[:2] for pair in some])
    tokenizer.no_truncation()
    decoded = tokenizer.decode_batch([c.ids for c in coded], skip_special_tokens=False)
    found = ours.stdout.split("\n")[:-1]
    expected = ["|".join([" ".join(map(str, c.ids)), " ".join(map(str, c.type_ids)), d.encode().hex()])
                for c, d in zip(coded, decoded)]
    differing = [i for i, (a, b) in enumerate(zip(found, expected)) if a != b]
    fine = len(found) == len(expected) and not differing
    failures += not fine
    print(f"{'equal   ' if fine else 'DIFFERENT'} {what}: {len(lines)} texts; {seconds:.1f} s here"
          + ("" if fine else f"; {len(differing)} differ {ours.stderr.strip()}"), flush=True)
    for i in differing[:3]:
        print(f"    {(texts + pairs)[i]!r}\n    here  {found[i]}\n    there {expected[i]}")


def main():
    program, which = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "all"
    seed, names = int(sys.argv[3]) if len(sys.argv) > 3 else 1, sys.argv[4:]
    rng = random.Random(seed)
    texts = list(texts_of(rng, 80_000))
    train = mixed_text(rng, 100_000)
    print(f"seed {seed}: {len(POINTS)} code points, {len(texts)} texts of {sum(map(len, texts))} characters",
          flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "tokenizer.json"
        pairs = [(rng.choice(texts), rng.choice(texts), most) for most in (5, 6, 8, 9, 33, 512) for _ in range(300)]
        for family in tokenizer_families.FAMILIES if which != "parts" else []:
            if names and family.__name__ not in names:
                continue
            compare(family.__name__, program, file, family(train, 3000), texts, pairs)
        some = texts[::7] + [t for t in texts if len(t) < 20][:2000]
        for name, tokenizer in tokenizer_families.parts() if which != "families" else []:
            if names and not any(n in name for n in names):
                continue
            separated = ["|".join(t) for t in some] if name.startswith("decoder") else some
            compare(name, program, file, tokenizer, separated, [])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
