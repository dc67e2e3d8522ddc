#!/usr/bin/env python3
"""What came of calls on a GPU, as one page: page.py OUT RESULT.json...

Merges the calls of several gpu-check.json, of machines that keep nothing between calls, into OUT/gpu-check.json, and
writes OUT/gpu-check.md. Status 1 if a step of any call went wrong.
"""
import json
import pathlib
import sys

FINE = ("ok", "skipped", "left out")


def problems(results, call=None):
    return [(name, step) for name, of in sorted(results["calls"].items()) if call in (None, name)
            for step in of["steps"] if step["status"] not in FINE]


def first_line(text):
    return text.strip().split("\n")[0][:160]


def summary(step):
    """A step in a line."""
    parts = [step["status"]]
    if step.get("came"):
        parts.append(step["came"])
    if step.get("expected"):
        parts.append(f"expected: {step['expected']}")
    if step.get("said"):
        parts.append(first_line(step["said"]))
    return "; ".join(parts) + (f" ({step['seconds']} s)" if "seconds" in step else "")


def cell(value):
    return str(value).replace("|", "\\|").replace("\n", " ")


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows])


def page_of(results):
    parts = ["# The first hour on a GPU"]
    wrong = problems(results)
    parts.append(f"**{len(wrong)} steps went wrong.**" if wrong else "Nothing went wrong.")
    parts += [f"- call {call}, {step['name']}: {cell(summary(step))}" for call, step in wrong]
    for call, of in sorted(results["calls"].items()):
        parts.append(f"## Call {call}: {of['machine']}, {of['seconds']} s")
        parts.append(table(["step", "expected", "came", "", "s"], [
            [step["name"], step.get("expected", ""), step.get("came") or first_line(step.get("said", "")),
             step["status"], step.get("seconds", "")] for step in of["steps"]]))
        for step in of["steps"]:
            for one in step.get("tables", []):
                parts.append(f"### {one['title']}")
                parts.append(f"```\n{one['text']}\n```" if "text" in one else table(one["columns"], one["rows"]))
    absent = sorted(set("abc") - set(results["calls"]))
    if absent:
        parts.append(f"Not called yet: {', '.join(absent)}.")
    return "\n\n".join(parts) + "\n"


def main():
    if len(sys.argv) < 3 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    results = {"calls": {}}
    for path in sys.argv[2:]:
        results["calls"].update(json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["calls"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu-check.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    (out / "gpu-check.md").write_text(page_of(results), encoding="utf-8")
    for call, step in problems(results):
        print(f"call {call}, {step['name']}: {summary(step)}")
    sys.exit(1 if problems(results) else 0)


if __name__ == "__main__":
    main()
