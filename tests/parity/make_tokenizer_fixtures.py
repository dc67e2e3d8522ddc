#!/usr/bin/env python3
"""Writes what the tests of BPE compare gradus against, computed by Hugging Face's tokenizers.

    pip install tokenizers==0.23.3
    python3 tests/parity/make_tokenizer_fixtures.py [output directory]

Files come out, the same on every run with the same tokenizers, but for wordpiece.json and its cases: its trainer
breaks ties at random.

train.txt        Mixed text: words of many scripts, numbers, emoji, spaces of all kinds, English contractions.
tokenizer.json   A byte-level BPE of 700 tokens that BpeTrainer learned from train.txt, with all bytes and
                 <|endoftext|>.
cases.json       "texts": texts as hexadecimal bytes, some of them no UTF-8, and the ids of this tokenizer for them,
                 decoded with errors="replace"; "classes": where runs of characters of one class begin, as the pattern
                 of ByteLevel treats them: letter, number, space, other.
llama3.json      A BPE of 600 tokens with Llama 3's pattern that BpeTrainer learned from train.txt, and five words more
                 that no merges make, with ignore_merges and Llama 3's special tokens.
wordpiece.json   A WordPiece of 500 tokens like BERT's that WordPieceTrainer learned from train.txt.
bert_llama3_cases.json
                 "llama3": texts as above, and the ids of llama3.json; "wordpiece": one text or two, the most ids, the
                 ids and segments of wordpiece.json, and their text; "normalizers": flags of BertNormalizer, and for
                 every 4096 code points a hash of what it makes of each, and of the words of BertPreTokenizer.
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer, WordPieceTrainer

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


def byte_level_bpe(text, vocabulary, pre_tokenizer, special_tokens=(), **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], BpeTrainer(
        vocab_size=vocabulary, min_frequency=2, special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def train(text, vocabulary):
    return byte_level_bpe(text, vocabulary, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
# What else the texts for Llama 3 and BERT have.
MORE = ["I'LL", "'S", "'ſt", "don'T", "1234567", "٣٤٥٦٧", "!\r\n\r\n", " \n \n", "\t\tx", "\u00a0y", "_name",
        "\"Quoted\"", "wonderful", " wonderful", "<|begin_of_text|>", "<|eot_id|>", "<|begin", "İstanbul",
        "straße STRASSE", "ΟΔΥΣΣΕΎΣ", "e\u0301\u0323", "\u0345\u0301a", "ậ", "ﬁ", "Ǆ", "中文字", "カﾞ", "한국어",
        "\u1112e\u0301", "[MASK]", "[CLS] [SEP", "a" * 101, "b" * 100, "\u0000\u0007\u200d\ufffd", "naïve café", "x²",
        "𝔘𝔫𝔦", "ｆｕｌｌ", "¿qué?", "don’t", "U.S.A."]


def llama3(text, vocabulary, ignore_merges=True, words=("Ġwonderful", "Hello", "123", "1234", "!čĊčĊ")):
    tokenizer = byte_level_bpe(text, vocabulary, pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), ignore_merges=ignore_merges)
    file = json.loads(tokenizer.to_str())
    for word in words:
        file["model"]["vocab"].setdefault(word, len(file["model"]["vocab"]))
    tokenizer = Tokenizer.from_str(json.dumps(file))
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    tokenizer.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in special])
    begin = special[0]
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1",
                                      special_tokens=[(begin, tokenizer.token_to_id(begin))])])
    return tokenizer


def wordpiece(text, vocabulary, flags=(True, True, None, True)):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(*flags)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator([text], WordPieceTrainer(
        vocab_size=vocabulary, limit_alphabet=150, show_progress=False,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(s, tokenizer.token_to_id(s)) for s in ("[CLS]", "[SEP]")])
    return tokenizer


def normalizer_hashes(flags):
    """FNV-1a of the text that the normalizer makes of each code point between two letters, and of its words."""
    normalize = normalizers.BertNormalizer(*flags).normalize_str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    hashes = []
    for first in range(0, 0x110000, 4096):
        value = 14695981039346656037
        for point in range(first, first + 4096):
            if point not in SURROGATES:
                text = normalize("a" + chr(point) + "b")
                for byte in "|".join([text] + [word for word, _ in split(text)]).encode():
                    value = (value ^ byte) * 1099511628211 % 2 ** 64
        hashes.append(str(value))
    return hashes


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


def bpe_cases(out, text, rng):
    tokenizer = train(text, 700)
    tokenizer.save(str(out / "tokenizer.json"))
    spaces = "".join(SPACES)
    data = [t.encode() for t in ("", " ", "a", "<|endoftext|>", " ".join(ODD), f"{spaces}x{spaces}", "a" * 300,
                                 "\U0010FFFF\u0000")]
    data += [break_utf8(rng, mixed_text(rng, 150), n) for n in [0] * 10 + [1, 2, 5, 20] * 5]
    data += [rng.randbytes(60) for _ in range(10)]
    cases = [[d.hex(), tokenizer.encode(d.decode("utf8", "replace")).ids] for d in data]
    write_object(out / "cases.json", texts=lines(cases), classes=compact(character_classes()))


def bert_llama3_cases(out, text, rng):
    bpe, pieces = llama3(text, 600), wordpiece(text + " naive cafe running runner unaffable " * 5, 500)
    bpe.save(str(out / "llama3.json"))
    pieces.save(str(out / "wordpiece.json"))

    def some_text(size):
        return "".join(rng.choice(MORE + [" ", "\n"]) if rng.random() < 0.5 else mixed_text(rng, 8)
                       for _ in range(size))

    texts = [t.encode() for t in MORE + [some_text(n) for n in range(1, 25)]]
    texts += [break_utf8(rng, some_text(15), 4) for _ in range(8)] + [rng.randbytes(60) for _ in range(4)]
    coded = [[t.hex(), bpe.encode(t.decode("utf8", "replace"), add_special_tokens=False).ids] for t in texts]
    piece_cases = []
    for i, t in enumerate(texts):
        pair = [t] if i % 2 == 0 else [t, rng.choice(texts)]
        most = rng.choice([3, 4, 8, 9, 16, 30, 1000])
        pieces.enable_truncation(most)
        piece = pieces.encode(*[p.decode("utf8", "replace") for p in pair])
        piece_cases.append([[p.hex() for p in pair], most, piece.ids, piece.type_ids,
                            pieces.decode(piece.ids, skip_special_tokens=False)])
    hashes = [[flags, normalizer_hashes(flags)] for flags in
              [(True, True, True, True), (False, False, True, False), (False, False, False, True)]]
    write_object(out / "bert_llama3_cases.json", llama3=lines(coded), wordpiece=lines(piece_cases),
                 normalizers=lines(hashes))


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "data/tokenizer")
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(12)
    text = mixed_text(rng, 12000)
    (out / "train.txt").write_bytes(text.encode())
    bpe_cases(out, text, rng)
    bert_llama3_cases(out, text, random.Random(13))
