#!/usr/bin/env python3
"""Writes include/gradus/data/unicode_table.hpp: what tokenizers know of each character.

    pip install tokenizers==0.23.3 sentencepiece unicodedataplus==16.0.0
    python3 scripts/unicode_table.py > include/gradus/data/unicode_table.hpp

Hugging Face's tokenizers go by several versions of Unicode at once, so what they do to each code point is asked of
them; letters and numbers, by which they split texts, are those of Unicode 16.
"""
import os
import tempfile

import sentencepiece
import tokenizers
import unicodedataplus as unicode
from sentencepiece import sentencepiece_model_pb2 as model
from tokenizers import normalizers, pre_tokenizers

POINTS = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)
LOWEST, HIGHEST = "\u0334", "\u0345"  # marks of the combining classes 1 and 240


def bert(**on):
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**off, **on}).normalize_str


def splits(pre_tokenizer):
    """Whether the pre-tokenizer splits a character from a letter before it."""
    return lambda c: len(pre_tokenizer.pre_tokenize_str("a" + c)) == 2


def precompiled(rules):
    """A Precompiled normalizer that replaces characters."""
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        with open(at("rules.tsv"), "w") as file:
            file.writelines(f"{ord(a):X}\t{ord(b):X}\n" for a, b in rules)
        with open(at("text"), "w") as file:
            file.write("some words\n" * 50)
        sentencepiece.SentencePieceTrainer.train(
            input=at("text"), model_prefix=at("m"), vocab_size=11, model_type="bpe",
            normalization_rule_tsv=at("rules.tsv"), minloglevel=5)
        proto = model.ModelProto()
        with open(at("m.model"), "rb") as file:
            proto.ParseFromString(file.read())
    return normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap).normalize_str


SPACES = pre_tokenizers.WhitespaceSplit()
clean, strip, lower = bert(clean_text=True), bert(strip_accents=True), bert(lowercase=True)
nfc, nfd, nfkd = (getattr(normalizers, form)().normalize_str for form in ("NFC", "NFD", "NFKD"))
unmark = normalizers.StripAccents().normalize_str
is_punctuation, is_number = splits(pre_tokenizers.Punctuation()), splits(pre_tokenizers.Digits(True))
is_no_word, is_no_letter = splits(pre_tokenizers.Whitespace()), splits(pre_tokenizers.ByteLevel(False))
# A Precompiled looks at the first part of a cluster alone, and drops the rest of it.
extends = precompiled([("a", "b")])
PREPENDED = [c for c in POINTS if unicode.grapheme_cluster_break(c) == "Prepend"]
prepends = precompiled([("a", "b")] + [(c, "x") for c in PREPENDED])


def properties(c):
    """The bits of `character_bits`."""
    category = unicode.category(c)[0]
    kind = 3 if len(SPACES.pre_tokenize_str("a" + c + "b")) == 2 else {"L": 1, "N": 2}.get(category, 0)
    assert (kind == 1) != is_no_letter(c) or kind == 3, hex(ord(c))
    return (kind | is_punctuation(c) << 2 | (c != " " and clean(c) == "") << 3
            | (kind != 3 and not is_no_word(c)) << 4 | is_number(c) << 5 | (unmark(c) == "") << 6
            | (strip(c) == "" and nfd(c) == c) << 7 | (extends("a" + c) == "b") << 8
            | (c in PREPENDED and prepends(c + "a") == "x") << 9
            | (unicode.grapheme_cluster_break(c) in ("Control", "CR", "LF")) << 10)


def combining_class(c):
    """The canonical combining class, as far as the normalizers know of the character."""
    known = nfd(c + LOWEST)[0] == LOWEST or nfd(HIGHEST + c)[0] == c
    return unicode.combining(c) if known and nfd(c) == c else 0


def runs(value_of, shift):
    entries, previous = [], None
    for c in POINTS:
        now = value_of(c)
        if now != previous:
            entries.append(f"0x{ord(c) << shift | now:X}")
        previous = now
    return entries


def lines_of(entries, separator):
    lines, line = [], " "
    for entry in entries:
        if len(line) + len(entry) + len(separator) > 118:
            lines.append(line)
            line = " "
        line += separator + entry if separator == " " else f" {entry},"
    return "\n".join(lines + [line])


def array(comment, name, entries):
    print(f"\n{comment}\n// clang-format off\ninline constexpr std::array<std::uint32_t, {len(entries)}> {name}{{{{")
    print(lines_of(entries, ","))
    print("}};\n// clang-format on")


def escaped(c):
    """A character in a string literal: as it is where an editor shows it as one."""
    if c in '\\"?':
        return "\\" + c
    to_right = unicode.bidirectional(c) not in ("R", "AL", "AN")
    if (0x20 <= ord(c) < 0x7F or ord(c) > 0xA0) and unicode.category(c)[0] in "LNPS" and to_right and nfc(c) == c:
        return c
    return f"\\U{ord(c):08X}" if ord(c) > 0xFFFF else f"\\u{ord(c):04X}" if ord(c) > 0xA0 else f"\\{ord(c):03o}"


def text(comment, name, characters):
    lines, line, columns = [], "", 0
    for c in characters:
        one = escaped(c)
        width = sum(1 + (unicode.east_asian_width(d) in "WF") for d in one)
        if columns + width > 114:
            lines.append(line)
            line, columns = "", 0
        line += one
        columns += width
    body = "\n".join(f'  U"{one}"' for one in lines + [line])
    print(f"\n{comment}\n// clang-format off\ninline constexpr std::u32string_view {name}{{\n{body},\n"
          f"  {len(characters)}}};\n// clang-format on")


def main():
    print(f"""#pragma once
// Written by scripts/unicode_table.py from Hugging Face's tokenizers {tokenizers.__version__} and Unicode \
{unicode.unidata_version}.

#include <array>
#include <cstdint>
#include <string_view>

namespace gradus::detail {{""")
    array("/// Start of each run of characters with the same properties, in order: code point times 2048, plus the bits of\n"
          "/// unicode::property, the lowest two of which are a character_class.", "unicode_runs", runs(properties, 11))
    array("/// Start of each run of characters of one canonical combining class, in order: code point times 256, plus the\n"
          "/// class.", "combining_runs", runs(combining_class, 8))
    lowered = {c: lower(c) for c in POINTS if lower(c) != c}
    assert [c for c, to in lowered.items() if len(to) > 1] == ["\u0130"]
    del lowered["\u0130"]
    text("/// Characters, in order, that have a lower case of one character.", "upper_case", "".join(lowered))
    text("/// Their lower case.", "lower_case", "".join(lowered.values()))
    keys = [c for c in POINTS if nfkd(c) != c and ord(c) not in HANGUL]
    canonical = {c: nfd(c) for c in keys if nfd(c) != c}
    compatible = {c: nfkd(c) for c in keys if c not in canonical}
    for c, to in canonical.items():
        assert "".join(compatible.get(d, d) for d in to) == nfkd(c), hex(ord(c))
    marks = "§¶"
    assert not set(marks) & {d for to in (*canonical.values(), *compatible.values()) for d in to}
    text("/// Characters, in order, each with what it decomposes into, and then § for a canonical decomposition or ¶ for one that\n"
         "/// is only a compatibility decomposition.", "decompositions",
         "".join(c + (canonical[c] + "§" if c in canonical else compatible[c] + "¶") for c in keys))
    whole = {to: c for c, to in canonical.items() if nfc(to) == c}
    triples = sorted((whole.get(to[:-1], to[:-1]), to[-1], c) for to, c in whole.items())
    assert all(len(first) == 1 for first, _, _ in triples)
    text("/// Two characters and the one that they compose, in order.", "compositions", "".join(map("".join, triples)))
    print("\n}  // namespace gradus::detail")


main()
