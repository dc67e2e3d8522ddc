#!/usr/bin/env python3
"""Compares our chat templates with jinja2 as transformers sets it up.

    pip install transformers==5.24.0 jinja2
    python3 tests/parity/compare_chat_templates.py PROGRAM [--count 5000] [--seed 1] [--folder DIR] [--corpus]

PROGRAM answers each line {"template": ..., "variables": {...}, "date": ...} with {"text": ..., "generation": ...} or
{"error": ..., "kind": "parse", "raise", "refused" or "limit"}; "hides": true beside a text says that not every range is
told. It may refuse what jinja2 renders, but must not write another text, nor write one or call a template wrong where
jinja2 does not. Without --folder and --corpus the templates are random. --folder takes the *.jinja and
tokenizer_config.json files below DIR, --corpus those of tests/data/chat_templates; both with the conversations there.
Exits with 1 if anything differs.
"""
import argparse
import json
import pathlib
import random
import re
import resource
import signal
import sys

from chat_template_reference import Program, render
from random_chat_templates import random_template, random_variables

DATA = pathlib.Path(__file__).parents[1] / "data" / "chat_templates"


def verdict(template, variables, program):
    """How the two answers compare, and the answers. A difference says which kind it is."""
    signal.alarm(10)
    try:
        theirs = render(template, variables)
    except TimeoutError:
        return "too slow", {}, {}
    finally:
        signal.alarm(0)
    ours = program.render(template, variables)
    if ours.get("kind") in ("refused", "limit"):
        return "refused", theirs, ours
    if "error" in theirs and "error" in ours and ours["kind"] != "crash":
        return "both error", theirs, ours
    if "text" in theirs and "text" in ours:
        if theirs["text"] != ours["text"]:
            return "another text", theirs, ours
        return "equal" if same_ranges(theirs, ours) else "another range", theirs, ours
    if "error" in ours:
        told = re.sub(r"^line \d+, column \d+: |'[^']*'|\d+", "", ours["error"])
        return f"{ours['kind']}: {told}", theirs, ours
    return "no error: " + re.sub(r"'[^']*'|\d+", "", theirs["message"])[:60], theirs, ours


def same_ranges(theirs, ours):
    """What is generated within a set block, a macro and the like has no place of its own: it is not compared."""
    return ours.get("hides", False) or theirs["generation"] == ours["generation"]


def is_difference(kind):
    return kind not in ("equal", "both error", "refused", "too slow")


def smaller(template, variables, program, kind, tries=1500):
    """A shorter template and fewer variables that differ in the same way."""
    def differs(text, values):
        return verdict(text, values, program)[0] == kind

    def shrink(pattern, tries):
        """Takes out pairs of what the pattern matches, with and without what is between."""
        again = True
        while again:
            again, found = False, [m.span() for m in re.finditer(pattern, template)]
            for i, (begin, end) in enumerate(found):
                for begin_2, end_2 in found[i:]:
                    for middle in ("", template[end:begin_2]):
                        tries -= 1
                        shorter = template[:begin] + middle + template[end_2:]
                        if tries > 0 and not again and not costly(shorter) and differs(shorter, variables):
                            again, chosen = True, shorter
            if again:
                yield chosen

    def pairs(pattern, tries=600):
        nonlocal template
        for template in shrink(pattern, tries):
            pass

    pairs(r"\{[%{#].*?[%}#]\}")
    size = max(1, len(template) // 2)
    while size and tries > 0:
        at, found = 0, False
        while at < len(template) and tries > 0:
            tries -= 1
            shorter = template[:at] + template[at + size:]
            if not costly(shorter) and differs(shorter, variables):
                template, found = shorter, True
            else:
                at += size
        if not found:
            size //= 2
    pairs(r"[^\w\s]|\w+|\s")
    pairs(r"\{[%{#].*?[%}#]\}")
    for name in list(variables):
        fewer = {key: value for key, value in variables.items() if key != name}
        if differs(template, fewer):
            variables = fewer
    return template, variables


def costly(template):
    return re.search(r"\*\*\s*\d{3}|\*\s*\d{5}|\*\*.{0,20}\*\*|\d{5}\s*\*", template) is not None


def templates_below(folder):
    for path in sorted(pathlib.Path(folder).rglob("*.jinja")):
        yield path.stem, path.read_bytes().decode()
    for path in sorted(pathlib.Path(folder).rglob("tokenizer_config.json")):
        held = json.loads(path.read_text()).get("chat_template")
        for part in held if isinstance(held, list) else [{"name": "", "template": held}] if held else []:
            yield f"{path.parent.name} {part['name']}", part["template"]


def cases(options):
    if options.folder or options.corpus:
        conversations = json.loads((DATA / "conversations.json").read_text())
        for folder in ([options.folder] if options.folder else []) + ([DATA] if options.corpus else []):
            for name, template in templates_below(folder):
                for i, variables in enumerate(conversations):
                    yield f"{name}, conversation {i}", template, variables
        return
    for i in range(options.count):
        rng = random.Random(options.seed * 1_000_003 + i)
        template, variables = random_template(rng), random_variables(rng)
        if not costly(template):
            yield f"number {i}", template, variables


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder")
    parser.add_argument("--corpus", action="store_true")
    parser.add_argument("--show", type=int, default=20, help="differences to print")
    parser.add_argument("--refused", action="store_true", help="also count what is refused, by its sentence")
    options = parser.parse_args()

    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    program, counts, refused, seen, of_kind = Program(options.program), {}, {}, set(), {}
    for name, template, variables in cases(options):
        kind, theirs, ours = verdict(template, variables, program)
        group = kind if not is_difference(kind) else "otherwise"
        counts[group] = counts.get(group, 0) + 1
        if kind == "refused" and "text" in theirs:
            told = re.sub(r"^line \d+, column \d+: ", "", ours["error"])
            refused[told] = refused.get(told, 0) + 1
        of_kind[kind] = of_kind.get(kind, 0) + 1
        if is_difference(kind) and len(seen) < options.show and (kind.startswith("another") or of_kind[kind] <= 3):
            template, variables = smaller(template, variables, program, kind)
            _, theirs, ours = verdict(template, variables, program)
            if template in seen:
                continue
            seen.add(template)
            print(f"{name}: {kind}\n  template  {template!r}\n  variables {json.dumps(variables)[:600]}\n"
                  f"  jinja2    {theirs.get('message') or repr(theirs.get('text'))} {theirs.get('generation') or ''}\n"
                  f"  ours      {ours.get('error') or repr(ours.get('text'))} {ours.get('generation') or ''}",
                  flush=True)
    print(", ".join(f"{count} {group}" for group, count in sorted(counts.items())))
    if options.refused:
        for told, count in sorted(refused.items(), key=lambda item: -item[1]):
            print(f"{count:7} {told}")
    return 1 if counts.get("otherwise") else 0


if __name__ == "__main__":
    sys.exit(main())
