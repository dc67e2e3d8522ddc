#!/usr/bin/env python3
"""Writes what chat templates are tested with: what jinja2 makes of them, set up as transformers sets it up.

    pip install transformers==5.24.0 jinja2
    python3 tests/parity/make_chat_template_fixtures.py

It reads tests/data/chat_templates/*.jinja and conversations.json, a list of the variables of 44 conversations, and
writes expected.json there: for each template a list with an entry for each conversation, or one entry for the first
conversation where the template reads no variable of any. An entry is

    the text,
    {"text": ..., "generation": [[begin, end], ...]} for a template with {% generation %}: ranges of bytes, or
    {"error": ...}: the message of raise_exception() in full, or the name of the exception's class.

The clock stands at 2024-07-26 12:34:56. What apply_chat_template() does before it renders, such as leaving out keys of
None, is not done.
"""
import json
import pathlib
import re

import jinja2

from chat_template_reference import chat_template_utils, render

DATA = pathlib.Path(__file__).parents[1] / "data" / "chat_templates"


def reads(template, names):
    """Whether a template reads one of the variables; one that cannot be parsed does not."""
    try:
        compiled = chat_template_utils._cached_compile_jinja_template(template)
        tree = compiled.environment.parse(template)
    except (jinja2.TemplateError, SyntaxError):
        return False
    return any(node.name in names for node in tree.find_all(jinja2.nodes.Name))


def entry(template, variables):
    answer = render(template, variables)
    if "error" in answer:
        return {"error": answer["error"]}
    return answer if re.search(r"\{%[-+]?\s*generation", template) else answer["text"]


def main():
    conversations = json.loads((DATA / "conversations.json").read_text())
    names = {name for variables in conversations for name in variables}
    expected = {}
    for path in sorted(DATA.glob("*.jinja")):
        template = path.read_bytes().decode()
        rendered = conversations if reads(template, names) else conversations[:1]
        expected[path.stem] = [entry(template, variables) for variables in rendered]
        errors = sum(isinstance(made, dict) and "error" in made for made in expected[path.stem])
        print(f"{path.stem}: {len(rendered)}, of which {errors} fail")
    rows = (f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(made, ensure_ascii=False) for made in row) + "\n]"
            for name, row in expected.items())
    (DATA / "expected.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
