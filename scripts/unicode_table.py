#!/usr/bin/env python3
"""Writes include/gradus/data/unicode_table.hpp: which characters are letters, numbers and spaces.

    pip install unicodedataplus==16.0.0    # the version of Unicode that Hugging Face's tokenizers 0.20 to 0.23 go by
    python3 scripts/unicode_table.py > include/gradus/data/unicode_table.hpp
"""
import unicodedataplus as unicode

CLASSES = {"other": 0, "letter": 1, "number": 2, "space": 3}
# The property White_Space, which has not changed since Unicode 6.3.
SPACES = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def class_of(point):
    if point in SPACES:
        return CLASSES["space"]
    return CLASSES[{"L": "letter", "N": "number"}.get(unicode.category(chr(point))[0], "other")]


def main():
    entries, previous = [], None
    for point in range(0x110000):
        now = class_of(point)
        if now != previous:
            entries.append(f"0x{point << 2 | now:X}")
        previous = now
    lines, line = [], " "
    for entry in entries:
        if len(line) + len(entry) + 2 > 120:
            lines.append(line)
            line = " "
        line += f" {entry},"
    lines.append(line)
    print(f"""#pragma once
// Written by scripts/unicode_table.py from Unicode {unicode.unidata_version}.

#include <array>
#include <cstdint>

namespace gradus::detail {{

/// Start of each run of characters of one class, in order: code point times 4, plus the class: 0 other, 1 letter
/// (general category L), 2 number (N), 3 space (property White_Space).
// clang-format off
inline constexpr std::array<std::uint32_t, {len(entries)}> unicode_runs{{""")
    print("\n".join(lines))
    print("""};
// clang-format on

}  // namespace gradus::detail""")


main()
