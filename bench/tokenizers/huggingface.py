#!/usr/bin/env python3
"""What bench_tokenizers does, by Hugging Face's tokenizers: huggingface.py TOKENIZER TEXT."""
import json
import os
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402: reads the variable

tokenizer = Tokenizer.from_file(sys.argv[1])
lines = open(sys.argv[2], encoding="utf8", newline="\n").readlines()
seconds = count = value = 0
for first in range(0, len(lines), 100_000):
    begin = time.process_time()
    coded = tokenizer.encode_batch_fast(lines[first:first + 100_000], add_special_tokens=False)
    seconds += time.process_time() - begin
    for code in coded:
        ids = code.ids
        count += len(ids)
        for token in ids:
            value = (value * 31 + token) % 1000000007
print(json.dumps({"tokens": count, "hash": value, "seconds": seconds}))
