#!/usr/bin/env python3
"""Holds gradus's evaluator of chat templates against jinja2 as transformers sets it up.

    g++ -std=c++20 -O2 -Iinclude tests/parity/chat_templates/render.cpp -o /tmp/render
    python tests/parity/compare_chat_templates.py /tmp/render [--count 5000] [--seed 1] | --corpus | --folder DIR

Random templates of a grammar, or the corpus of tests/data, or the templates of a folder (.jinja files and
tokenizer_config.json), over the conversations of tests/data. A text that differs, a text where jinja2 has an error, and
an error where jinja2 has a text, unless gradus says that it does not have the construct, are printed and end the script
with an error.
"""

import argparse
import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from chat_templates import DATE, render, texts

CORPUS = Path(__file__).parent.parent / "data" / "chat_templates"


class Program:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, text, variables):
        self.process.stdin.write(json.dumps({"template": text, "variables": variables, "date": DATE}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Grammar:
    """Templates that are mostly right."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = []

    def one(self, *choices):
        return self.random.choice(choices)

    def odds(self, p):
        return self.random.random() < p

    def literal(self):
        return self.one(
            "1",
            "0",
            "-3",
            "2.5",
            "'a b'",
            "'Hello, World'",
            '"it\'s"',
            "''",
            "'é\\n x '",
            "true",
            "false",
            "none",
            "[1, 2, 3]",
            "['b', 'A', 'c']",
            "(1, 'x')",
            "{'k': 1, 'j': [none, 2.0]}",
            "[]",
            "{}",
            "10",
            "'3'",
            "' pad '",
            "'a,b,,c'",
            "1e20",
            "0.1",
        )

    def value(self):
        named = [
            ("messages", 4),
            ("message", 4),
            ("m.content", 3),
            ("m.role", 3),
            ("m['content']", 2),
            ("words", 2),
            ("d", 2),
            ("n", 2),
            ("x", 2),
            ("tools", 1),
            ("nothing", 1),
            ("loop.index", 1),
            ("loop.first", 1),
            ("loop.last", 1),
            ("messages[0]", 1),
            ("messages[0].role", 1),
            ("messages[-1]['content']", 1),
            ("bos_token", 1),
            ("m.tool_calls", 1),
            ("ns.v", 1),
            ("documents", 1),
            ("loop.previtem", 0.5),
            ("loop.nextitem.role", 0.3),
            ("add_generation_prompt", 1),
        ]
        named += [(name, 3) for name in self.names]
        return self.random.choices([a for a, _ in named], [b for _, b in named])[0]

    def arguments(self, depth):
        return ", ".join(self.expression(depth - 1) for _ in range(self.one(0, 1, 1, 2)))

    def filter(self, depth):
        e = lambda: self.expression(depth - 1)
        return self.one(
            "trim",
            "length",
            "first",
            "last",
            "upper",
            "lower",
            "title",
            "capitalize",
            "list",
            "string",
            "int",
            "float",
            "abs",
            "sort",
            "unique|list",
            "reverse|list",
            "join",
            "tojson",
            "items|list",
            "sum",
            "min",
            "max",
            "safe",
            "e",
            "count",
            "default('d')",
            "default('d', true)",
            "tojson(indent=2)",
            "tojson(sort_keys=true)",
            "sort(reverse=true)",
            "trim('a ')",
            "join(', ')",
            "replace('a', 'b')",
            "replace('l', 'L', 1)",
            "map('string')|list",
            "map(attribute='role')|list",
            "map('upper')|join('-')",
            "select('string')|list",
            "selectattr('role', 'equalto', 'user')|list",
            "indent(2)",
            "round",
            "rejectattr('content', 'none')|list",
            "reject('equalto', 1)|list",
            "sort(attribute='role')",
            "round(1)",
            "dictsort",
            "map(attribute='content', default='?')|list",
            "batch(2)|list",
            "groupby('role')|list",
            "wordcount",
            "center(9)",
            "selectattr('content')|list",
            "int(9)",
            "round(0, 'floor')",
            "indent('>', true)",
            "tojson(ensure_ascii=true)",
            "select('in', ['a', 'b c'])|list",
            "map('length')|list",
            "reverse|join",
            "sort(case_sensitive=true)",
            "nofilter",
            "dictsort(by='value')",
            f"default({e()})",
            f"join({e()})",
            f"replace({e()}, 'z')",
            f"select('eq', {e()})|list",
            "map('trim')|list",
            "map('int')|sum",
            "first|upper",
            "last|default('none')",
            "string|length",
            "tojson|length",
        )

    def test(self, depth):
        return self.one(
            "defined",
            "undefined",
            "none",
            "string",
            "mapping",
            "iterable",
            "sequence",
            "number",
            "boolean",
            "integer",
            "float",
            "true",
            "false",
            "odd",
            "even",
            "lower",
            "upper",
            "eq(1)",
            "equalto 'user'",
            "ne 2",
            "gt 1",
            "le(2.5)",
            "in ['user', 1]",
            "divisibleby 2",
            "not none",
            "not defined",
            "notest",
            f"eq({self.expression(depth - 1)})",
            "sameas none",
            "callable",
        )

    def method(self, depth):
        e = lambda: self.expression(depth - 1)
        return self.one(
            "strip()",
            "lstrip()",
            "rstrip('d!')",
            "split()",
            "split(',')",
            "split('l', 1)",
            "rsplit(' ', 1)",
            "upper()",
            "lower()",
            "title()",
            "capitalize()",
            "startswith('H')",
            "endswith(('d', 'x'))",
            "replace('l', '')",
            "find('l')",
            "rfind('o')",
            "count('l')",
            "join(['a', 'b'])",
            "splitlines()",
            "items()|list",
            "keys()|list",
            "values()|list",
            "get('k')",
            "get('role', 'none')",
            "get('zz')",
            "isdigit()",
            "isalpha()",
            "zfill(5)",
            "partition(' ')",
            "removeprefix('a')",
            "append(1)",
            "index('b')",
            "copy()",
            "update({})",
            "pop()",
            "replace('a', 'b', 1)",
            "center(7)",
            "isspace()",
            f"get({e()})",
            f"split({e()})",
            f"startswith({e()})",
            "role",
            "content",
            "nothing",
            "function.name",
        )

    def expression(self, depth):
        if depth <= 0:
            return self.one(self.literal(), self.value(), self.value())
        e = lambda: self.expression(depth - 1)
        kind = self.random.random()
        if kind < 0.18:
            return self.one(self.literal(), self.value())
        if kind < 0.42:
            return f"{self.operand(depth)}|{self.filter(depth)}"
        if kind < 0.54:
            return f"{self.operand(depth)}.{self.method(depth)}"
        if kind < 0.62:
            return f"{self.operand(depth)} is {self.test(depth)}"
        if kind < 0.70:
            return f"{self.operand(depth)}[{self.one('0', '-1', '1:', ':2', '::-1', '1:-1', '-2:', '::2', e(), repr('role'), '5', '2:1')}]"
        if kind < 0.82:
            op = self.one(
                "+", "-", "*", "/", "//", "%", "~", "~", "+", "==", "!=", "<", ">=", "in", "not in", "and", "or", "**"
            )
            right = self.one("2", "3", "-2") if op == "**" else self.operand(depth)
            return f"({self.operand(depth)} {op} {right})"
        if kind < 0.86:
            return f"(not {e()})"
        if kind < 0.91:
            return f"({e()} if {e()}" + (f" else {e()})" if self.odds(0.8) else ")")
        if kind < 0.94:
            return self.one(f"[{e()}, {e()}]", f"{{'p': {e()}}}", f"({e()}, {e()})", f"({e()},)", f"dict(a={e()})")
        if kind < 0.97:
            return self.one(
                f"range({self.one('3', '1, 6, 2', 'n', '5, 0, -2')})|list",
                "strftime_now('%d %b %Y')",
                f"f({self.arguments(depth)})",
                "f(1, b=2)",
                "1 < n < 10",
                "caller()",
                "namespace(a=1).a",
            )
        return f"raise_exception({e()})" if self.odds(0.2) else e()

    def operand(self, depth):
        inner = self.expression(depth - 1)
        return inner if re.fullmatch(r"[\w.\[\]']+", inner) and not inner[0].isdigit() else f"({inner})"

    def blank(self):
        return self.one("", "", "", " ", "\n", "\n  ", "  \n", "\n\n", "\t")

    def text(self):
        return self.blank() + self.one("", "text", "a <b> & c", "<|im_start|>", "}", "{ x }", "é", "#") + self.blank()

    def tag(self, inside):
        return "{%" + self.one("", "", "", "-", "-", "+") + f" {inside} " + self.one("", "", "", "-", "-", "+") + "%}"

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.one(1, 1, 2, 3)))

    def statement(self, depth):
        e = lambda: self.expression(self.one(0, 1, 2, 3))
        kind = self.random.random()
        if kind < 0.2 or depth <= 0:
            return self.text()
        if kind < 0.5:
            return "{{" + self.one("", "", "-") + f" {e()} " + self.one("", "", "-") + "}}" + self.blank()
        if kind < 0.62:
            parts = [self.tag(f"if {e()}") + self.body(depth - 1)]
            if self.odds(0.3):
                parts.append(self.tag(f"elif {e()}") + self.body(depth - 1))
            if self.odds(0.5):
                parts.append(self.tag("else") + self.body(depth - 1))
            return "".join(parts) + self.tag("endif")
        if kind < 0.76:
            source = self.one("messages", "messages", "words", "messages[1:]", "d|dictsort", "range(3)", e())
            target = self.one("m", "m", "m", "message", "k, v" if "dictsort" in source or self.odds(0.1) else "m")
            test = f" if {e()}" if self.odds(0.2) else ""
            inner = self.body(depth - 1)
            if self.odds(0.15):
                inner += (
                    self.tag(f"if {e()}") + self.tag(self.one("break", "continue")) + self.tag("endif") + self.text()
                )
            other = self.tag("else") + self.body(depth - 1) if self.odds(0.2) else ""
            return self.tag(f"for {target} in {source}{test}") + inner + other + self.tag("endfor")
        if kind < 0.86:
            name = self.one("a", "b", "m", "content", "n")
            result = self.tag(f"set {name} = {e()}")
            self.names.append(name)
            if self.odds(0.2):
                result = (
                    self.tag(f"set {name}{self.one('', '', '|upper')}") + self.body(depth - 1) + self.tag("endset")
                )
            elif self.odds(0.1):
                result = self.tag(f"set a, b = {self.one('1, 2', e(), 'words[:2]')}")
            return result
        if kind < 0.91:
            return self.one(
                self.tag("set ns = namespace(v=0)"),
                self.tag(f"set ns.v = {e()}"),
                "{# a comment #}",
                "{#- c -#}\n",
                "{% raw %}{{ x }}{% endraw %}",
            )
        if kind < 0.95:
            parameters = self.one("a", "a, b=1", "a='x', b=n", "")
            return self.tag(f"macro f({parameters})") + self.body(depth - 1) + self.tag("endmacro")
        return self.one(
            self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration"),
            self.tag("filter " + self.one("upper", "trim", "replace('a', 'o')|title"))
            + self.body(depth - 1)
            + self.tag("endfilter"),
            self.tag(f"with a={e()}, b={e()}") + self.body(depth - 1) + self.tag("endwith"),
            self.tag("call f(1)") + self.body(depth - 1) + self.tag("endcall"),
            self.one("{% if %}", "{% endfor %}", "{{ ( }}", "{% set 1 = 2 %}", "{{ a b }}", "{% for %}", "{{ 'a }}"),
        )

    def template(self):
        self.names = []
        return "".join(self.statement(3) for _ in range(self.one(1, 2, 3, 4)))


def verdict(theirs, ours):
    if "text" in ours:
        if "text" not in theirs:
            return "otherwise"
        placed = (
            ours["hides"] or theirs.get("generated", []) == ours["generation"]
        )  # of a hidden one the place is none
        same = theirs["text"] == ours["text"] and placed
        return "equal" if same else "otherwise"
    if "error" in theirs:
        return "both error"
    return "refused" if ours["kind"] in ("refused", "limit") else "otherwise"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", action="store_true")
    parser.add_argument("--folder")
    args = parser.parse_args()
    program = Program(args.program)
    chats = json.loads((CORPUS / "conversations.json").read_text(encoding="utf-8"))
    if args.corpus or args.folder:
        found = texts(args.folder or CORPUS)
        for path in sorted(Path(args.folder).rglob("tokenizer_config.json")) if args.folder else []:
            template = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
            if isinstance(template, str):
                found[str(path)] = template
        cases = ((name, text, chat) for name, text in found.items() for chat in chats)
    else:
        grammar = Grammar(args.seed)
        cases = ((number, grammar.template(), grammar.random.choice(chats)) for number in range(args.count))
    counts, reasons, shown = Counter(), Counter(), 0
    for name, text, chat in cases:
        theirs, ours = render(text, chat), program(text, chat)
        if re.search(r" at 0x[0-9a-f]+>", theirs.get("text", "")):  # an address, another one each time
            theirs = {"error": "address"}
        result = verdict(theirs, ours)
        counts[result] += 1
        if result == "refused":
            reasons[re.sub(r"^line \d+, column \d+: ", "", ours["error"])] += 1
        if result == "otherwise" and shown < 20:
            shown += 1
            print(
                f"{name}: {text!r}\n  {json.dumps(chat, ensure_ascii=False)[:300]}\n  jinja2 {theirs}\n  gradus {ours}"
            )
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    for reason, count in reasons.most_common(15):
        print(f"  refused {count}: {reason}")
    return 1 if counts["otherwise"] else 0


if __name__ == "__main__":
    sys.exit(main())
