#!/usr/bin/env python3
"""Writes include/gradus/data/bert_table.hpp: how BERT's normalizer treats each character.

    pip install tokenizers==0.23.3
    python3 scripts/bert_table.py > include/gradus/data/bert_table.hpp

Hugging Face's tokenizers go by several versions of Unicode here (categories, decompositions, lower case), so the table
is taken from them: each code point alone, and beside a combining mark.
"""
import tokenizers
from tokenizers import normalizers, pre_tokenizers

POINTS = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
# A mark of each combining class that a character which is no mark there may have, by rank; found below to be all.
RANKS = ["\u093c", "\u094d", "\U0001d165", "\u302e", "\U0001d16d", "\u0300"]  # 7, 9, 216, 224, 226, 230


def bert(**on):
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**off, **on}).normalize_str


clean, strip, lower = bert(clean_text=True), bert(strip_accents=True), bert(lowercase=True)
nfd = normalizers.NFD().normalize_str
split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str


def is_starter(c):
    """Whether marks are not reordered across the character: canonical combining class 0."""
    return c == "\u0334" or nfd(c + "\u0334")[0] != "\u0334"  # U+0334 has class 1, and is stripped


def class_of(c):
    """As in the comment below."""
    if c != " " and clean(c) == "":
        return 2
    if strip(c) == "" and nfd(c) == c:
        return 4 if is_starter(c) and c != "\u0334" else 3
    if not is_starter(c) and nfd(c) == c:
        # The marks of smaller classes.
        above = [rank for rank, mark in enumerate(RANKS) if c != mark and nfd(c + mark) == mark + c]
        rank = len(above)
        assert above == list(range(rank)) and nfd(RANKS[rank] + c) == RANKS[rank] + c, hex(ord(c))
        return 5 + rank
    return 1 if len(split("a" + c)) == 2 else 0


def runs_of(mapping):
    """(first, count, target, difference, step), as in the comment below."""
    def target(p):
        return mapping.get(p, p)
    runs, points = [], sorted(mapping)
    while points:
        first, best = points[0], None
        for step in (0, 2):
            count, difference = 1, target(first + 1) - target(first)
            if not 0 <= difference < 128:
                difference = 0
            while count < 511 and target(first + count) == target(first) + count % 2 * difference + count // 2 * step:
                count += 1
            while first + count - 1 not in mapping:
                count -= 1
            if best is None or count > best[1]:
                best = (first, count, target(first), difference if count > 1 else 0, step if count > 2 else 0)
        runs.append(best)
        points = [p for p in points if p >= first + best[1]]
    return runs


def packed(run):
    first, count, target, difference, step = run
    return f"0x{first << 43 | count << 34 | target << 13 | difference << 6 | step:X}"


def array(comment, kind, name, entries):
    lines, line = [], " "
    for entry in entries:
        if len(line) + len(entry) + 2 > 120:
            lines.append(line)
            line = " "
        line += f" {entry},"
    lines.append(line)
    print(f"\n{comment}\n// clang-format off\ninline constexpr std::array<{kind}, {len(entries)}> {name}{{{{")
    print("\n".join(lines))
    print("}};\n// clang-format on")


def main():
    classes, previous = [], None
    for c in POINTS:
        now = class_of(c)
        if now != previous:
            classes.append(f"0x{ord(c) << 4 | now:X}")
        previous = now
    lowered = {ord(c): lower(c) for c in POINTS if lower(c) != c}
    assert [p for p, to in lowered.items() if len(to) > 1] == [0x130]
    del lowered[0x130]
    stripped = {ord(c): strip(c) for c in POINTS
                if strip(c) != c and class_of(c) not in (3, 4) and not "\uac00" <= c <= "\ud7a3"}
    ideographs = {first: [stripped.pop(p, chr(p)) for p in range(first, end)]
                  for first, end in ((0xF900, 0xFADA), (0x2F800, 0x2FA1E))}
    sequences = {p: nfd(chr(p)) for p, to in stripped.items() if len(to) != 1}
    assert all(len(to) <= 3 for to in sequences.values())
    single = {p: ord(to) for p, to in stripped.items() if len(to) == 1}
    print(f"""#pragma once
// Written by scripts/bert_table.py from Hugging Face's tokenizers {tokenizers.__version__}.

#include <array>
#include <cstdint>

namespace gradus::detail {{""")
    array("""/// Start of each run of characters of one class, in order: code point times 16, plus the class: 0 other,
/// 1 punctuation, 2 control character, 3 accent (nonspacing mark), 4 accent that marks are not reordered across, 5 and
/// above: no accent, but reordered among marks by this number.""", "std::uint32_t", "bert_classes", classes)
    layout = """in runs: from the highest bit, 21 bits of the first character, 9 of their count,
/// 21 of a target, 7 of a difference, 6 of a step. The character first + i becomes
/// target + i % 2 * difference + i / 2 * step."""
    array(f"/// Characters in lower case, {layout}", "std::uint64_t", "lower_case",
          [packed(r) for r in runs_of({p: ord(to) for p, to in lowered.items()})])
    array(f"/// Characters without accents, {layout}", "std::uint64_t", "without_accents",
          [packed(r) for r in runs_of(single)])
    for first, targets in ideographs.items():
        array(f"/// What the compatibility ideographs from U+{first:X} are.", "std::uint32_t",
              f"ideographs_{first:x}", [f"0x{ord(t):X}" for t in targets])
    array("/// Other characters that have parts: the character and up to three parts, accents among them.",
          "std::array<std::uint32_t, 4>", "parts_of_characters",
          ["{" + ", ".join(f"0x{ord(c):X}" for c in chr(p) + to) + "}" for p, to in sorted(sequences.items())])
    print("\n}  // namespace gradus::detail")


main()
