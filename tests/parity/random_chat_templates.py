"""Random chat templates and conversations: well typed mostly, and with every construct of the language."""

TEXTS = ["", "Hello", "hello world", " a space before", "after ", "\n", "\n\nlines\n", "a\nb\r\nc\rd", "\t x",
         "naïve café",
         "日本語。", "👩‍👩‍👧", "it's", "say \"x\"", "both ' and \"", "back\\slash", "<|im_end|>", "</s>", "<b> & 'x'",
         "{{ 7 }}", "{% raw %}", "12", "-3", "2.5", "1e3", "TRUE", "ǆ ß ŉ", "İI", "ΑΣ", "x,y,,z", "a-b-c", "Apple",
         "apple",
         "APPLE", "pear", "fig", "\u00a0", "\u2003x\u3000", "\x1c", "\x85", "\u200b", "<think>\nso\n</think>\n\nyes",
         "tEsT oF cAsE", "0", "a1b2", "__x__", "\x00", "\x7f", "½", "٣"]
ROLES = ["system", "user", "assistant", "tool", "developer"]


def random_json(rng, depth=2):
    kind = rng.randrange(8 if depth else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind in (1, 2):
        return rng.choice([0, 1, -1, 7, 42, 10**6, 2**53, 1.0, 0.5, -2.5, 1e16, 1e-7, 0.1, 123456.789, 1e22])
    if kind in (3, 4, 5):
        return rng.choice(TEXTS)
    if kind == 6:
        return [random_json(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(["a", "b", "type", "é", "it's", "items", "x y"]): random_json(rng, depth - 1)
            for _ in range(rng.randrange(4))}


def random_message(rng):
    message = {"role": rng.choice(ROLES)}
    kind = rng.randrange(10)
    if kind < 7:
        message["content"] = rng.choice(TEXTS)
    elif kind == 7:
        message["content"] = [rng.choice([{"type": "text", "text": rng.choice(TEXTS)}, {"type": "image"}])
                              for _ in range(rng.randrange(3))]
    elif kind == 8:
        message["content"] = None
    if message["role"] == "assistant" and rng.random() < 0.5:
        arguments = {rng.choice(["a", "b", "c"]): random_json(rng, 1) for _ in range(rng.randrange(3))}
        message["tool_calls"] = [{"type": "function", "id": "call_1",
                                  "function": {"name": "look_up", "arguments": arguments}}]
    if rng.random() < 0.15:
        message["reasoning_content"] = rng.choice(TEXTS)
    return message


def random_variables(rng):
    variables = {"messages": [random_message(rng) for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 4, 5]))],
                 "add_generation_prompt": rng.random() < 0.5, "bos_token": "<s>", "eos_token": "</s>",
                 "n": rng.choice([0, 1, 7, -4, 12]), "x": rng.choice([2.5, -0.5, 3.0, 1e20]),
                 "words": [rng.choice(TEXTS) for _ in range(rng.randrange(6))],
                 "numbers": [rng.choice([3, 1, 2, -1, 1, 2.5, True]) for _ in range(rng.randrange(6))],
                 "d": {key: random_json(rng) for key in ["b", "a", "C", "count"][:rng.randrange(5)]}}
    if rng.random() < 0.5:
        variables["tools"] = [{"type": "function", "function": {"name": "look_up", "parameters": random_json(rng)}}]
    if rng.random() < 0.3:
        variables["enable_thinking"] = rng.random() < 0.5
    return variables


class Maker:
    """Writes one template. Kinds of values: str, int, float, bool, strs, numbers, dicts, list, dict."""

    KINDS = ["str", "str", "str", "int", "int", "float", "bool", "strs", "numbers", "dicts", "list", "dict"]
    GIVEN = {"messages": "dicts", "add_generation_prompt": "bool", "bos_token": "str", "eos_token": "str", "n": "int",
             "x": "float", "words": "strs", "numbers": "numbers", "d": "dict"}
    NAMES = ["a", "b", "c", "item", "message", "content", "i"]

    def __init__(self, rng):
        self.rng = rng
        self.scope = dict(self.GIVEN)
        self.known = set(self.GIVEN) | {"tools", "enable_thinking", "nowhere"}
        self.macros = []
        self.spaces = []
        self.loops = 0
        self.left = rng.choice([5, 15, 40])
        self.wrong = rng.choice([0, 0, 0, 0.01, 0.05])

    def pick(self, *choices):
        return self.rng.choice(choices)

    def maybe(self, chance):
        return self.rng.random() < chance

    # ---- expressions -------------------------------------------------------------------------------------------------
    def quoted(self, text):
        quote = self.pick("'", '"')
        out = ""
        for c in text:
            if c in (quote, "\\"):
                out += "\\" + c
            elif c == "\n":
                out += "\\n" if self.maybe(0.9) else c
            elif ord(c) < 32 or ord(c) > 126 and self.maybe(0.3):
                n, digits = ord(c), (("x", 2) if ord(c) < 256 else ("u", 4) if ord(c) < 65536 else ("U", 8))
                out += f"\\{digits[0]}{n:0{digits[1]}x}"
            elif c != "\0":
                out += c
        return quote + out + quote

    def text(self):
        literal = self.quoted(self.pick(*TEXTS, "a", "b", " ", ",", "o"))
        if self.maybe(0.05):
            literal += self.pick(" ", "\n", "") + self.quoted(self.pick(*TEXTS))
        return literal

    def whole(self):
        return self.pick("0", "1", "2", "3", "5", "7", "10", "-1", "-2", "42", "1_000", "0x1F", "0b11", "0o17")

    def real(self):
        return self.pick("0.5", "1.0", "2.5", "3.14159", "1e3", "1.5e-7", "1e16", "1e15", "123456789.125", "0.1",
                         "-2.5",
                         "1_0.5", "1e22", "2.675", "0.0001", "0.00001")

    def flag(self):
        return self.pick("true", "false", "True", "False")

    def variable(self, kind):
        if self.maybe(0.01):
            return self.pick(*sorted(self.known))
        names = [name for name, of in self.scope.items() if of == kind]
        return self.pick(*names) if names else self.literal(kind)

    def literal(self, kind, depth=1):
        if kind == "str":
            return self.text()
        if kind == "int":
            return self.whole()
        if kind == "float":
            return self.real()
        if kind == "bool":
            return self.flag()
        if kind == "dict":
            pairs = [f"{self.pick(self.text(), self.text(), self.whole(), self.flag(), 'none')}: "
                     f"{self.any(depth - 1)}" for _ in range(self.rng.randrange(4))]
            return "{" + ", ".join(pairs) + self.pick("", "," if pairs else "") + "}"
        of = {"strs": "str", "numbers": self.pick("int", "int", "float"), "dicts": "dict"}.get(kind)
        items = [self.make(of, depth - 1) if of else self.any(depth - 1) for _ in range(self.rng.randrange(5))]
        if self.maybe(0.25):
            return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
        return "[" + ", ".join(items) + self.pick("", "", "," if items else "") + "]"

    def any(self, depth):
        if self.maybe(0.06):
            return self.pick("none", "None")
        return self.make(self.pick(*self.KINDS), depth)

    def make(self, kind, depth):
        """An expression that gives a value of this kind, mostly."""
        if self.maybe(self.wrong):
            kind = self.pick(*self.KINDS)
        if depth <= 0 or self.maybe(0.15):
            return self.variable(kind) if self.maybe(0.6) else self.literal(kind, 0)
        d = depth - 1
        choice = self.rng.random()
        if choice < 0.05:
            chosen = f"{self.make(kind, d)} if {self.condition(d)} else {self.make(kind, d)}"
            return chosen if self.maybe(0.1) else f"({chosen})"
        if choice < 0.06:
            return f"({self.make(kind, d)} if {self.condition(d)})"
        if choice < 0.09:
            return self.round(f"{self.make(kind, d)} {self.pick('or', 'and')} {self.make(kind, d)}")
        if choice < 0.11:
            given = self.make(kind, 0) + self.pick("", ", true")
            return f"{self.operand(kind, d)} | {self.pick('default', 'd')}({given})"
        if choice < 0.12:
            return f"({self.any(d)}, {self.make(kind, d)}, {self.any(d)})[1]"
        if choice < 0.13:
            held = f"{{'k': {self.make(kind, d)}}}"
            return held + self.pick(".k", "['k']", ".get('k')")
        if self.spaces and choice < 0.14:
            return f"{self.pick(*self.spaces)}.{self.pick('v', 'w')}"
        return getattr(self, "make_" + kind)(d)

    def round(self, expression):
        return f"({expression})" if self.maybe(0.6) else expression

    def operand(self, kind, d):
        made = self.make(kind, d)
        simple = made.replace("_", "").replace(".", "").isalnum() or (made[0] in "'\"[" and " " not in made)
        return made if simple or self.maybe(0.12) else f"({made})"

    def condition(self, d):
        return self.make("bool", d) if self.maybe(0.8) else self.any(d)

    def message(self):
        return self.pick("messages[0]", "messages[-1]", "(messages | last)", "messages[1]",
                         "message" if "message" in self.scope else "messages[0]")

    def make_str(self, d):
        a = lambda: self.operand("str", d)
        kind = self.rng.randrange(25)
        if kind == 0:
            return self.round(f"{a()} + {a()}")
        if kind == 1:
            return self.round(f"{a()} ~ {self.operand(self.pick(*self.KINDS), d)} ~ {a()}")
        if kind == 2:
            return self.round(f"{a()} * {self.pick('2', '3', '0', '-1', 'true')}")
        if kind == 3:
            return self.message() + self.pick(".role", "['role']", ".content", '["content"]')
        if kind in (4, 5, 6):
            return f"{a()}{self.pick(' | ', '|')}" + self.pick(
                "trim", f"trim({self.text()})", "upper", "lower", "title", "capitalize", "string", "safe", "escape",
                                                               "e",
                f"replace({self.text()}, {self.text()})", f"replace({self.text()}, {self.text()}, {self.whole()})",
                "indent(2)", "indent(4)", "indent(width=3)", "indent(2, true)", "indent(2, first=true, blank=true)",
                "indent('> ')",
                f"center({self.pick('5', '12', 'width=9')})", "trim | upper", "lower | trim", "reverse", "first",
                                                               "last",
                "forceescape", "striptags", "urlencode", "truncate(5)", "wordwrap(5)")
        if kind in (7, 8, 9):
            chars = self.pick("", "", self.quoted(self.pick("a", " \n", "xy", "-", "<>")))
            return f"{a()}." + self.pick(
                f"strip({chars})", f"lstrip({chars})", f"rstrip({chars})", "upper()", "lower()", "title()",
                                         "capitalize()",
                f"replace({self.text()}, {self.text()})", f"replace({self.text()}, {self.text()}, {self.whole()})",
                f"zfill({self.pick('5', '0', '8')})", f"removeprefix({self.text()})", f"removesuffix({self.text()})",
                f"join({self.make('strs', d)})", "swapcase()", "casefold()",
                                         f"ljust(8, {self.pick(chr(39) + '.' + chr(39), chr(39) + '*' + chr(39))})",
                "rjust(8)", "center(9)", f"format({self.text()})", "expandtabs()", "__class__", "encode()")
        if kind == 10:
            return f"{a()}[{self.bounds()}]"
        if kind == 11:
            return f"{a()}[{self.pick('0', '-1', '1', 'n')}]"
        if kind == 12:
            return f"{a()}.{self.pick('partition', 'rpartition')}({self.text()})[{self.pick('0', '1', '2', '-1')}]"
        if kind == 13:
            return f"{a()}.split({self.pick('', self.text(), self.text() + ', 1')})[{self.pick('0', '-1')}]"
        if kind == 14:
            return self.operand(self.pick("strs", "strs", "list", "numbers"), d) + " | join" + self.pick(
                "", "()", f"({self.text()})")
        if kind == 15:
            attribute = self.pick("'role'", "'content'")
            return f"{self.operand('dicts', d)} | join({self.text()}, attribute={attribute})"
        if kind in (16, 17):
            of = self.pick("dict", "dicts", "list", "str", "numbers", "bool", "float")
            return self.operand(of, d) + " | tojson" + self.pick(
                "", "", "(indent=2)", "(sort_keys=true)", "(ensure_ascii=true)", "(ensure_ascii=false, indent=4)",
                "(separators=(',', ':'))", "(true)", "(indent=1, sort_keys=true)", "(indent='\\t')")
        if kind == 18:
            return f"{self.operand(self.pick(*self.KINDS), d)} | string"
        if kind == 19 and self.macros:
            return self.call(d)
        if kind == 20 and self.loops:
            return f"loop.cycle({a()}, {a()})"
        if kind == 21:
            return f"strftime_now({self.pick('%d %b %Y', '%Y-%m-%d', '%H:%M:%S %A %B %j', '%y %m %p %I %a %%')!r})"
        if kind == 22:
            return self.round(f"{a()} % {self.make('str', d)}") if self.maybe(0.2) else a()
        if kind == 23:
            return self.operand("strs", d) + self.pick("[0]", "[-1]", " | first", " | last", " | min", " | max", "[5]")
        return self.text()

    def bounds(self):
        bound = lambda: self.pick("", "", "0", "1", "2", "-1", "-2", "100", "-100", "n", "none")
        return bound() + ":" + bound() + self.pick("", ":" + self.pick("", "2", "-1", "-2", "1", "3"))

    def make_int(self, d):
        a = lambda: self.operand("int", d)
        kind = self.rng.randrange(14)
        if kind in (0, 1, 2):
            return self.round(f"{a()} {self.pick('+', '-', '*', '//', '%', '+', '-')} {a()}")
        if kind == 3:
            return self.round(f"{self.pick('2', '-2', '3', 'n', '7')} ** {self.pick('2', '3', '0', '-1', '8')}")
        if kind == 4:
            of = self.pick("str", "strs", "dict", "dicts", "list", "numbers")
            return self.operand(of, d) + self.pick(" | length", " | count")
        if kind == 5:
            return f"{self.operand('str', d)}.{self.pick('find', 'rfind', 'count', 'index')}({self.text()})"
        if kind == 6:
            of = self.pick("str", "float", "bool", "int")
            return self.operand(of, d) + " | int" + self.pick("", "()", "(7)", "(default=3)")
        if kind == 7 and self.loops:
            return "loop." + self.pick("index", "index0", "revindex", "revindex0", "length", "depth", "depth0")
        if kind == 8:
            return f"{a()} | abs"
        if kind == 9:
            return self.pick("-", "+", "- ") + a()
        if kind == 10:
            return f"{self.operand('numbers', d)} | {self.pick('sum', 'min', 'max', 'first', 'last', 'sum(start=5)')}"
        if kind == 11:
            return f"{self.operand('str', d)} | wordcount"
        if kind == 12:
            return f"{self.operand('numbers', d)}{self.pick('[0]', '[-1]', '.count(1)', '.index(1)')}"
        return self.whole()

    def make_float(self, d):
        a = lambda: self.operand(self.pick("float", "int"), d)
        kind = self.rng.randrange(7)
        if kind in (0, 1):
            return self.round(f"{a()} {self.pick('+', '-', '*', '/', '//', '%', '/')} {a()}")
        if kind == 2:
            return f"{self.operand(self.pick('int', 'str', 'bool'), d)} | float{self.pick('', '(1.5)', '(default=2)')}"
        if kind in (3, 4):
            return a() + " | round" + self.pick(
                "", "(1)", "(2)", "(0)", "(1, 'floor')", "(method='ceil')", "(-1)")
        if kind == 5:
            return f"{a()} | abs"
        return self.real()

    def test(self, d):
        kind = self.rng.randrange(6)
        no = self.pick("", "", "not ")
        if kind < 3:
            of = self.pick(*self.KINDS)
            subject = self.variable(of) if self.maybe(0.6) else self.operand(of, d)
            return f"{subject} is {no}" + self.pick(
                "defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "boolean",
                                                    "integer",
                "float", "true", "false", "callable")
        if kind == 3:
            other = self.pick(self.whole(), "(" + self.make("int", d) + ")")
            return f"{self.operand('int', d)} is {no}" + self.pick(
                "odd", "even", f"divisibleby {self.pick('2', '3', '(5)')}", f"eq {other}", f"ne({self.whole()})",
                                                                   f"gt {other}",
                f"lt {other}", f"ge {other}", f"le({self.whole()})", f"equalto {other}",
                f"greaterthan {other}", f"lessthan {other}", f"sameas {other}")
        if kind == 4:
            return f"{self.operand('str', d)} is {no}" + self.pick(
                "lower", "upper", f"eq {self.text()}", f"in {self.literal('strs')}", f"in {self.text()}",
                                                                   f"equalto({self.text()})")
        return f"{self.message()}.{self.pick('content', 'tool_calls', 'role', 'nothing')} is {no}" + self.pick(
            "defined", "string", "none", "iterable", "mapping")

    def make_bool(self, d):
        kind = self.rng.randrange(12)
        if kind in (0, 1):
            of = self.pick("str", "int", "float", "int", "list", "numbers")
            sign = self.pick("==", "!=", "<", ">", "<=", ">=", "==")
            return self.round(f"{self.operand(of, d)} {sign} {self.operand(of, d)}")
        if kind == 2:
            a = lambda: self.operand(self.pick("int", "float"), d)
            return self.round(f"{a()} {self.pick('<', '<=', '==', '!=')} {a()} {self.pick('<', '>', '==')} {a()}")
        if kind in (3, 4, 5):
            return self.round(self.test(d))
        if kind == 6:
            return self.round(f"{self.make('bool', d)} {self.pick('and', 'or')} {self.make('bool', d)}")
        if kind == 7:
            return self.round(f"not {self.make('bool', d)}")
        if kind == 8:
            within = self.operand(self.pick("str", "strs", "dict"), d)
            return self.round(f"{self.operand('str', d)} {self.pick('in', 'not in')} {within}")
        if kind == 9:
            ends = self.pick(self.text(), "(" + self.text() + ", " + self.text() + ")")
            return f"{self.operand('str', d)}." + self.pick(
                f"startswith({ends})", f"endswith({ends})", "isdigit()", "isalpha()", "isalnum()", "isspace()",
                                                            "isupper()",
                "islower()", "isnumeric()", "isdecimal()", "istitle()", "isascii()", "isidentifier()",
                                                            f"startswith({self.text()}, 1)")
        if kind == 10 and self.loops:
            return self.pick("loop.first", "loop.last", "loop.changed(" + self.any(d) + ")", "loop.previtem is defined",
                             "loop.nextitem is undefined", "not loop.last")
        if kind == 11:
            return self.round(f"{self.operand('int', d)} in {self.operand('numbers', d)}")
        return self.flag()

    def make_any_list(self, d):
        return self.make(self.pick("strs", "numbers", "dicts", "list"), d)

    def make_strs(self, d):
        a = lambda: self.operand("strs", d)
        kind = self.rng.randrange(14)
        if kind == 0:
            return f"{self.operand('str', d)}." + self.pick(
                "split()", f"split({self.text()})", f"split({self.text()}, 1)", f"rsplit({self.text()}, 1)", "rsplit()",
                "splitlines()", "splitlines(true)", "split(none, 1)", "rsplit(none, 1)",
                                                            f"split(sep={self.text()}, maxsplit=1)")
        if kind == 1:
            name = self.pick("upper", "lower", "trim", "capitalize", "title", "string")
            return f"{a()} | map('{name}') | list"
        if kind == 2:
            return f"{a()} | map('replace', {self.text()}, {self.text()}) | list"
        if kind == 3:
            return f"{a()} | {self.pick('sort', 'sort(reverse=true)', 'sort(case_sensitive=true)', 'sort(true, true)')}"
        if kind == 4:
            return f"{a()} | unique{self.pick('', '(true)', '(case_sensitive=true)')} | list"
        if kind == 5:
            return f"{a()}[{self.bounds()}]"
        if kind == 6:
            name = self.pick("role", "content", "tool_calls.0.function.name", "role")
            default = self.pick("", ", default=" + self.text())
            return f"{self.operand('dicts', d)} | map(attribute='{name}'{default}) | list"
        if kind == 7:
            return self.round(f"{a()} + {a()}")
        if kind == 8:
            test = self.pick("'in', " + self.literal("strs"), "'string'", "'eq', " + self.text(), "", "'lower'")
            return f"{a()} | {self.pick('select', 'reject')}({test}) | list"
        if kind == 9:
            return f"{self.operand('dict', d)}{self.pick('.keys() | list', ' | list', '.keys() | sort')}"
        if kind == 10:
            return f"{self.operand('str', d)} | list"
        if kind == 11:
            return f"{a()} | reverse | list"
        return self.literal("strs", d)

    def make_numbers(self, d):
        a = lambda: self.operand("numbers", d)
        kind = self.rng.randrange(10)
        if kind in (0, 1):
            return self.pick("range(3)", "range(2, 8, 3)", "range(5, 0, -2)", "range(n)",
                             "range(0)") + self.pick(" | list", " | list", "")
        if kind == 2:
            return f"{a()} | sort{self.pick('', '(reverse=true)', '(true)')}"
        if kind == 3:
            return f"{a()} | map({self.pick(*map(repr, ['abs', 'int', 'float', 'round', 'string']))}) | list"
        if kind == 4:
            test = self.pick("'odd'", "'even'", "'number'", "'integer'", "'gt', 1", "'divisibleby', 2", "'>', 1")
            return f"{a()} | {self.pick('select', 'reject')}({test}) | list"
        if kind == 5:
            return f"{a()}[{self.bounds()}]"
        if kind == 6:
            return f"{a()} | unique | list"
        if kind == 7:
            return self.round(f"{a()} {self.pick('+', '* 2 +')} {a()}")
        if kind == 8:
            return f"{self.operand('strs', d)} | map('length') | list"
        return self.literal("numbers", d)

    def make_dicts(self, d):
        a = lambda: self.operand("dicts", d)
        kind = self.rng.randrange(8)
        if kind in (0, 1):
            name = self.pick("role", "content", "a", "tool_calls", "function.name")
            test = self.pick("", ", 'equalto', 'user'", ", 'in', ['user']", ", 'defined'", ", 'string'",
                             ", 'ne', " + self.text())
            return f"{a()} | {self.pick('selectattr', 'rejectattr')}('{name}'{test}) | list"
        if kind == 2:
            return f"{a()}[{self.bounds()}]"
        if kind == 3:
            name = self.pick("role", "role", "content", "role,content", "a")
            more = self.pick("", ", reverse=true", ", case_sensitive=true")
            return f"{a()} | sort(attribute='{name}'{more})"
        if kind == 4:
            return f"{a()} | {self.pick('reverse', 'unique(attribute=' + repr('role') + ')')} | list"
        if kind == 5:
            return self.pick("messages", "messages[1:]", "(tools or [])", "messages[0].tool_calls", "tools")
        return self.pick("messages", self.literal("dicts", d))

    def make_list(self, d):
        a = lambda: self.operand(self.pick("list", "numbers", "strs", "dicts"), d)
        kind = self.rng.randrange(10)
        if kind == 0:
            return f"{self.operand('dict', d)}" + self.pick(".items() | list", " | items | list", " | dictsort",
                                                            ".values() | list",
                                                         " | dictsort(true)", " | dictsort(by='value')",
                                                            " | dictsort(reverse=true)", ".items()", ".values()")
        if kind == 1:
            return f"{a()} | batch({self.pick('2', '3', '2, 0')}) | list"
        if kind == 2:
            name = self.pick("'role'", "'content'", "'a'")
            default = self.pick("", ", default=" + self.text())
            return f"{self.operand('dicts', d)} | groupby({name}{default}) | list"
        if kind == 3:
            return f"{a()}[{self.bounds()}]"
        if kind == 4:
            return f"{a()} | slice(2) | list" if self.maybe(0.3) else f"{a()} | list"
        if kind == 5:
            return f"{a()} | map({self.pick(*map(repr, ['string', 'tojson', 'length', 'list', 'default']))}) | list"
        if kind == 6:
            return self.pick("messages[0].content", "[[1, [2]], [3, []]]", "d.values() | list", "messages[-1].content")
        return self.literal("list", d)

    def make_dict(self, d):
        kind = self.rng.randrange(8)
        if kind == 0:
            given = self.pick("", "a=" + self.any(d), f"b={self.any(d)}, c={self.any(d)}", f"[({self.text()}, 1)]",
                              self.make("dict", d))
            return f"dict({given})"
        if kind == 1:
            return self.message()
        if kind == 2:
            return f"{self.operand('dicts', d)}{self.pick('[0]', ' | first', '[-1]', ' | last')}"
        if kind == 3:
            return f"{self.operand('dict', d)}.get({self.text()}, {self.make('dict', d)})"
        if kind == 4:
            return self.pick("d", "tools[0].function", "tools[0]['function'].parameters")
        return self.literal("dict", d)

    def call(self, d):
        name, parameters = self.pick(*self.macros)
        given = [self.any(d) for _ in range(self.rng.randrange(len(parameters) + 2))]
        if parameters and self.maybe(0.3):
            given.append(f"{self.pick(*parameters, 'other')}={self.any(d)}")
        if self.maybe(0.04):
            given.append(self.pick("*words", "**d", "*[1, 2]", "**{'a': 1}"))
        return f"{name}({', '.join(given)})"

    # ---- statements --------------------------------------------------------------------------------------------------
    def tag(self, content):
        return "{%" + self.pick("", "", "", "-", "-", "+") + self.pick(" ", " ", "  ", "\n") + content + self.pick(" ",
            " ", "\n ") \
            + self.pick("", "", "", "-", "-", "+") + "%}"

    def plain(self):
        return self.pick("x", "\n", "\n", "  \n", " ", "    ", "\r\n", "text <b>\n", "é", "}", "%}", "}}", "#}",
                         "# y\n", "-", "\n\n",
                         "<|user|>", "\t", "{ ", "\u00a0", "\n  ", "|", " a \n b ")

    def output(self):
        expression = self.any(self.rng.randint(0, 3))
        if self.maybe(0.02):
            expression += ", " + self.any(1)
        start = self.pick("", "", "", "-", "+") if self.maybe(0.5) else ""
        return "{{" + start + self.pick(" ", "", "\n", "  ") + (" " if expression[0] in "-+{" else "") + expression \
            + self.pick(" ", "" if expression[-1] != "}" else " ") + self.pick("", "", "", "-") + "}}"

    def body(self, depth, inner=True):
        """Statements in a scope of their own, as the writer believes: what is set in it is not used after it."""
        before = dict(self.scope), list(self.macros), list(self.spaces)
        made = self.statements(depth)
        if inner or self.maybe(0.7):
            self.scope, self.macros, self.spaces = before
        return made

    def statements(self, depth):
        return "".join(self.statement(depth) for _ in range(self.rng.randint(0, 4)))

    def name(self, kind):
        name = self.pick(*self.NAMES)
        self.scope[name] = kind
        self.known.add(name)
        return name

    def statement(self, depth):
        self.left -= 1
        if self.left < 0:
            return ""
        kind = self.rng.randrange(34)
        if kind < 7:
            return self.plain()
        if kind < 14 or depth <= 0:
            return self.output()
        d = depth - 1
        if kind < 17:
            made = self.tag("if " + self.condition(2)) + self.body(d, False)
            while self.maybe(0.3):
                made += self.tag("elif " + self.condition(1)) + self.body(d, False)
            if self.maybe(0.4):
                made += self.tag("else") + self.body(d, False)
            return made + self.tag("endif")
        if kind < 21:
            return self.loop(d)
        if kind < 24:
            if self.maybe(0.15):
                right = f"{self.any(1)}, {self.any(1)}"
                return self.tag(f"set {self.name('int')}, {self.name('str')} = {right}")
            of = self.pick(*self.KINDS)
            right = self.make(of, 2)
            return self.tag(f"set {self.name(of)} = {right}")
        if kind == 24:
            filters = self.pick("", "", " | upper", " | trim", " | replace('a', 'b')", " | length", " | trim | lower")
            inside = self.body(d)
            return self.tag("set " + self.name("str") + filters) + inside + self.tag("endset")
        if kind == 25:
            name = self.pick("ns", "state")
            if name in self.spaces:
                return self.tag(f"set {name}.{self.pick('v', 'w')} = {self.any(2)}")
            self.spaces.append(name)
            self.known.add(name)
            given = self.pick("v=" + self.any(1), "v=1, w=" + self.any(1), "", "{'v': 1}")
            return self.tag(f"set {name} = namespace({given})")
        if kind in (26, 27):
            return self.macro(d)
        if kind == 28 and (self.macros or self.maybe(0.1)):
            name, parameters = self.pick("m1", "m2", "m3"), []
            if self.macros:
                name, parameters = self.pick(*self.macros)
            given = ", ".join(self.any(1) for _ in range(self.rng.randrange(len(parameters) + 1)))
            takes = self.pick("", "", "(a)", "(a, b=1)", "()")
            return self.tag(f"call{takes} {name}({given})") + self.body(d) + self.tag("endcall")
        if kind == 29:
            return self.tag("filter " + self.pick("upper", "trim", "replace('a', 'b')", "trim | upper", "indent(2)",
                                                  "length", "title",
                                                 "join(',')")) + self.body(d) + self.tag("endfilter")
        if kind == 30:
            before = dict(self.scope)
            names = self.pick("", f"a={self.any(1)}", f"a={self.any(1)}, b={self.any(1)}", f"b = a, c = b")
            made = self.tag("with " + names) + self.body(d) + self.tag("endwith")
            self.scope = before
            return made
        if kind == 31:
            return self.tag("generation") + self.body(d) + self.tag("endgeneration")
        if kind == 32:
            return self.pick("{#", "{#-", "{#+") + self.pick(" note ", "", " {{ x }} ", "\n# \n",
                                                             " a {% if %} ") + self.pick("#}", "-#}", "+#}")
        if self.maybe(0.5):
            return self.pick("{% raw %}", "{%- raw -%}", "{%+ raw %}", "{%-raw-%}",
                             "{% raw -%}") + self.pick("{{ x }}", "  {% if %}\n", "",
                                                       " {# c #} ") + self.pick("{% endraw %}", "{%- endraw -%}",
                                                           "{%+ endraw +%}", "{%endraw-%}")
        return self.pick("{{ raise_exception(" + self.make("str", 1) + ") }}",
                         self.output()) if self.maybe(0.2) else self.output()

    def loop(self, d):
        before = dict(self.scope)
        recursive = self.maybe(0.12)
        source_kind = self.pick("strs", "numbers", "dicts", "list", "dicts", "str", "dict")
        source = self.make(source_kind, 2)
        of = {"strs": "str", "str": "str", "numbers": "int", "dicts": "dict", "dict": "str"}.get(source_kind, "int")
        if self.maybe(0.15):
            source = self.operand("dict", 1) + self.pick(".items()", " | items", " | dictsort")
            target = f"{self.name('str')}, {self.name('str')}"
        else:
            target = self.name(of)
        if recursive:
            source, target = "[[1, [2, []]], [3, []], [4, [5]]]", self.name("list")
        test = f" if {self.condition(2)}" if self.maybe(0.2) else ""
        made = self.tag(f"for {target} in {source}{test}{' recursive' if recursive else ''}")
        self.loops += 1
        inside = self.body(d)
        if recursive:
            inside += "{{ loop.depth }}" + self.pick("", self.output())
            inside += "{% if " + target + " is iterable %}{{ loop(" + target + "[1:]) }}{% endif %}"
        if self.maybe(0.15):
            inside += self.tag(f"if {self.condition(1)}") + self.tag(self.pick("break",
                "continue")) + self.tag("endif") + self.plain()
        if self.maybe(0.1):
            inside += "{{ loop.previtem | default('-') }}{{ loop.nextitem is defined }}"
        if self.maybe(0.03):
            inside += "{{ loop }}"
        self.loops -= 1
        self.scope = before
        made += inside
        if self.maybe(0.2):
            made += self.tag("else") + self.body(d)
        return made + self.tag("endfor")

    def macro(self, d):
        name = self.pick("m1", "m2", "m3")
        before, loops = dict(self.scope), self.loops
        parameters = ["a", "b", "content"][:self.rng.randrange(4)]
        written, has_default = [], False
        for parameter in parameters:
            has_default = has_default or self.maybe(0.3)
            written.append(f"{parameter}={self.any(1)}" if has_default else parameter)
            self.scope[parameter] = self.pick("str", "int", "str", *self.KINDS)
            self.known.add(parameter)
        self.loops = 0
        inside = self.body(d) + self.pick("", "", "{{ varargs }}", "{{ kwargs }}",
                                          self.pick("", "{{ caller() }}", "{{ caller(1) }}"),
                                          "{{ caller() if caller else 'no' }}", "{{ a }}",
                                          "{% if caller is defined %}{{ caller(b) }}{% endif %}")
        self.scope, self.loops = before, loops
        self.macros.append((name, parameters))
        return self.tag(f"macro {name}({', '.join(written)})") + inside + self.tag("endmacro")


def spoiled(text, rng):
    """A template with a few characters gone, doubled or from elsewhere."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        sign = rng.choice("{}%#-+|'\"()[],.:~ \n=!<>*/\\0aé")
        text = rng.choice([text[:at] + text[at + 1:], text[:at] + sign + text[at:],
                           text[:at] + text[at:at + 6] + text[at:]])
    return text


def random_template(rng):
    maker = Maker(rng)
    text = "".join(maker.statement(rng.randint(1, 4)) for _ in range(rng.randint(1, 8)))
    if rng.random() < 0.2:
        text += rng.choice(["\n", "\n\n", "\r\n"])
    return spoiled(text, rng) if rng.random() < 0.06 else text
