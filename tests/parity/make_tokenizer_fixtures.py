#!/usr/bin/env python3
"""Writes what the tests of BPE compare gradus against, computed by Hugging Face's tokenizers.

    pip install tokenizers==0.23.3 sentencepiece
    python3 tests/parity/make_tokenizer_fixtures.py [output directory]

Files come out, the same on every run with the same tokenizers, but for those of WordPiece and Unigram: their trainers
break ties at random.

train.txt        Mixed text: words of many scripts, numbers, emoji, spaces of all kinds, English contractions.
tokenizer.json   A byte-level BPE of 700 tokens that BpeTrainer learned from train.txt, with all bytes and
                 <|endoftext|>.
cases.json       "texts": texts as hexadecimal bytes, some of them no UTF-8, and the ids of this tokenizer for them,
                 decoded with errors="replace"; "classes": where runs of characters of one class begin, as the pattern
                 of ByteLevel treats them: letter, number, space, other.
NAME.json        A tokenizer of each family in tokenizer_families.py, learned from train.txt.
family_cases.json
                 Texts and pairs of them, and the ids of these tokenizers.
part_cases.json  Each part of a pipeline alone, and its ids.
"""
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, pre_tokenizers

import tokenizer_families

SURROGATES = range(0xD800, 0xE000)
SCRIPTS = [(0x61, 0x7A), (0x61, 0x7A), (0x61, 0x7A), (0x61, 0x7A), (0xDF, 0xFF), (0x3B1, 0x3C9), (0x430, 0x44F),
           (0x561, 0x586), (0x5D0, 0x5EA), (0x627, 0x64A), (0x905, 0x939), (0x93E, 0x94D), (0xE01, 0xE2E),
           (0x10D0, 0x10F0), (0x3041, 0x3096), (0x4E00, 0x4FFF), (0xAC00, 0xADFF), (0x1D400, 0x1D454),
           (0x20000, 0x20100)]
SPACES = [" ", " ", " ", " ", " ", "  ", "\n", "\n\n", "\t", " \n", "\n ", "\r\n", "\u00a0", "\u2003", "\u3000",
          "   \n", "\u0085", "\u200b"]
ODD = ["don't", "we'll", "I'M", "it's", "they're", "''s", "'", "'v", "'ve", "12", "4.5e-7", "١٢٣", "Ⅷ", "½", "x=y+1;",
       "//", "#!/bin/sh", "<|endoftext|>", "<|endof", "a<|endoftext|><|endoftext|> b", "e\u0301", "\u0000", "\ufffd",
       "🇩🇪", "👩‍👩‍👧", "👍🏽"]


def mixed_text(rng, size):
    """About `size` characters."""
    words = ["".join(chr(rng.randint(*script)) for _ in range(rng.randint(1, 9)))
             for script in SCRIPTS for _ in range(60)]
    parts, length = [], 0
    while length < size:
        kind = rng.random()
        if kind < 0.85:
            part = words[int(len(words) * rng.random() ** 2)]
        elif kind < 0.95:
            part = rng.choice(ODD)
        elif kind < 0.97:
            part = chr(rng.randint(0x1F300, 0x1F64F)) * rng.randint(1, 3)
        else:
            point = rng.randrange(0x110000)
            part = "?" if point in SURROGATES else chr(point)
        part += "".join(rng.choice(SPACES) for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 3])))
        parts.append(part)
        length += len(part)
    return "".join(parts)


def break_utf8(rng, text, places):
    """Bytes of the text that are no UTF-8 at some places: cut out, overwritten or put in."""
    data = bytearray(text.encode())
    for _ in range(places):
        at = rng.randrange(len(data))
        kind = rng.randrange(3)
        if kind == 0:
            del data[at]
        elif kind == 1:
            data[at] = rng.randrange(256)
        else:
            data[at:at] = rng.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82",
                                      b"\xf0\x9f\x98", b"\x80"])
    return bytes(data)


# What else the texts have.
MORE = ["I'LL", "'S", "'ſt", "don'T", "1234567", "٣٤٥٦٧", "!\r\n\r\n", " \n \n", "\t\tx", "\u00a0y", "_name",
        "\"Quoted\"", "wonderful", " wonderful", "<|begin_of_text|>", "<|eot_id|>", "<|begin", "İstanbul",
        "straße STRASSE", "ΟΔΥΣΣΕΎΣ", "e\u0301\u0323", "\u0345\u0301a", "ậ", "ﬁ", "Ǆ", "中文字", "カﾞ", "한국어",
        "\u1112e\u0301", "[MASK]", "[CLS] [SEP", "a" * 101, "b" * 100, "\u0000\u0007\u200d\ufffd", "naïve café", "x²",
        "𝔘𝔫𝔦", "ｆｕｌｌ", "¿qué?", "don’t", "U.S.A."]


def character_classes():
    """[[first code point, class], ...], found by what a character is joined with; surrogates are no characters."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    runs = []
    for point in range(0x110000):
        joined = ["other"] if point in SURROGATES else [
            name for name, with_ in (("letter", "a"), ("number", "1"), ("other", "!"))
            if len(split(with_ + chr(point))) == 1]
        kind = joined[0] if joined else "space"
        if not runs or runs[-1][1] != kind:
            runs.append([point, kind])
    return runs


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def lines(values):
    return "[\n" + ",\n".join(map(compact, values)) + "]"


def write_object(path, **members):
    path.write_text("{" + ",\n".join(f'"{name}":{text}' for name, text in members.items()) + "}\n")


def coded(tokenizer, texts, pairs=()):
    """[numbers of one text or two, most ids or 0, ids, segments, what is decoded of the ids or null: the first text]."""
    readable = [t.decode("utf8", "replace") for t in texts]
    for some, most in [([i], 0) for i in range(len(texts))] + list(pairs):
        if most:
            tokenizer.enable_truncation(most)
        code = tokenizer.encode(*[readable[i] for i in some])
        tokenizer.no_truncation()
        back = tokenizer.decode(code.ids, skip_special_tokens=False)
        yield [some, most, code.ids, code.type_ids if any(code.type_ids) else [],
               None if back == readable[some[0]] else back.encode().hex()]


def bpe_cases(out, text, rng):
    tokenizer = tokenizer_families.gpt2(text, 700)
    tokenizer.save(str(out / "tokenizer.json"))
    spaces = "".join(SPACES)
    data = [t.encode() for t in ("", " ", "a", "<|endoftext|>", " ".join(ODD), f"{spaces}x{spaces}", "a" * 300,
                                 "\U0010FFFF\u0000")]
    data += [break_utf8(rng, mixed_text(rng, 150), n) for n in [0] * 10 + [1, 2, 5, 20] * 5]
    data += [rng.randbytes(60) for _ in range(10)]
    write_object(out / "cases.json", texts=lines([t.hex() for t in data]), cases=lines(coded(tokenizer, data)),
                 classes=compact(character_classes()))


def family_cases(out, text, rng):
    """A small tokenizer of each family, and its ids."""
    def some_text(size):
        return "".join(rng.choice(MORE + [" ", "\n"]) if rng.random() < 0.5 else mixed_text(rng, 8)
                       for _ in range(size)).encode()

    texts = [t.encode() for t in MORE] + [some_text(n) for n in range(1, 12)]
    texts += [break_utf8(rng, some_text(15).decode(), 4) for _ in range(3)] + [rng.randbytes(60) for _ in range(2)]
    pairs = [([rng.randrange(len(texts)), rng.randrange(len(texts))], most)
             for most in (5, 6, 8, 9, 33, 512) for _ in range(2)]
    cases = {}
    for family in tokenizer_families.FAMILIES:
        rules = {"rules": tokenizer_families.FEW_RULES} if family.__name__ in ("t5", "xlm_roberta", "albert") else {}
        size = 500 if family.__name__ in ("llama2", "mistral", "gemma") else 400
        # Unigram has a token for each character.
        learned = "".join(c for c in text if ord(c) < 0x250) if rules else text
        tokenizer = family(learned + " naive cafe running runner unaffable " * 5, size, **rules)
        if family.__name__ == "llama3":  # words that no merges make
            file = json.loads(tokenizer.to_str())
            words = [w for w in ("Ġwonderful", "Hello", "123", "1234", "!čĊčĊ") if w not in file["model"]["vocab"]]
            for added in file["added_tokens"]:
                added["id"] += len(words)
            for special in file["post_processor"]["processors"][1]["special_tokens"].values():
                special["ids"] = [special["ids"][0] + len(words)]
            file["model"]["vocab"].update({w: 400 + i for i, w in enumerate(words)})
            tokenizer = Tokenizer.from_str(json.dumps(file))
        tokenizer.save(str(out / f"{family.__name__}.json"), pretty=False)
        cases[family.__name__] = lines(coded(tokenizer, texts, pairs))
    write_object(out / "family_cases.json", texts=lines([t.hex() for t in texts]), **cases)


def part_cases(out, rng):
    """For each part, what its tokenizer has that the first one has not, and its ids."""
    texts = [t.encode() for t in MORE[::3] + ["Dear s, the other, the 12 e", " <s> the<s>dear ",
                                                 "ÀÉ가각ﬁ½ e\u0323\u0301", "a'tB  C\n"]]
    texts.append(mixed_text(rng, 60).encode())
    apart = ["|".join(t.decode()).encode() for t in texts]
    base, entries = None, []
    for name, tokenizer in tokenizer_families.parts(tokenizer_families.FEW_RULES):
        file = json.loads(tokenizer.to_str())
        base = base or file
        entries.append([name, {k: v for k, v in file.items() if v != base[k]},
                        list(coded(tokenizer, apart if "decoder" in name else texts))])
    write_object(out / "part_cases.json", texts=lines([t.hex() for t in texts]), apart=lines([t.hex() for t in apart]),
                 base=compact(base), parts=lines(entries))


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "data/tokenizer")
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(12)
    text = mixed_text(rng, 12000)
    (out / "train.txt").write_bytes(text.encode())
    bpe_cases(out, text, rng)
    family_cases(out, text, random.Random(13))
    part_cases(out, random.Random(14))
