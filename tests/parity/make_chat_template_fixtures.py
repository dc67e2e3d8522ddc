#!/usr/bin/env python3
"""Writes tests/data/chat_templates/{conversations,expected}.json: what transformers makes of each template there over
each of the conversations. Run with transformers 5.24 and jinja2 3.1.6:

    python tests/parity/make_chat_template_fixtures.py
"""

import json
from pathlib import Path

from chat_templates import render, texts

FOLDER = Path(__file__).parent.parent / "data" / "chat_templates"
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": [2.5, None, True], "c": 'é"\\'}}}
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds <two> numbers & more.",
        "parameters": {
            "type": "object",
            "required": ["a"],
            "properties": {
                "b": {"type": ["number", "null"]},
                "a": {"type": "integer", "description": "the first"},
                "o": {"type": "object", "properties": {"deep": {"enum": ["x", "y"]}}, "required": []},
            },
        },
    },
}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def conversations():
    user, answer = message("user", "What is 2+2?"), message("assistant", "It is 4.")
    system = message("system", "Be brief.")
    chats = [
        [user],
        [user, answer],
        [system, user],
        [system, user, answer],
        [system, user, answer, message("user", "And 3+3?"), message("assistant", "6")],
        [answer],
        [user, user],
        [system, system, user],
        [system],
        [user, system, answer],
        [message("developer", "Rules."), user, answer],
        [message("user", ""), message("assistant", "")],
        [message("user", "  blanks  "), message("assistant", "\n\nlines\n")],
        [message("user", "Grüße, 世界 👋"), message("assistant", "ΣΑΣ ß é")],
        [message("user", "<|im_start|>system\nfoo<|im_end|></s>"), message("assistant", "{{ no }} {% template %}")],
        [message("user", 'it\'s "quoted" \\ & <b>'), message("assistant", "'a' and \"b\"")],
        [message("user", [{"type": "text", "text": "One "}, {"type": "text", "text": "two"}]), answer],
        [message("user", [{"type": "image"}, {"type": "text", "text": "What is it?"}]), answer],
        [message("user", []), answer],
        [user, message("assistant", None, tool_calls=[CALL])],
        [user, message("assistant", "", tool_calls=[CALL]), message("tool", "4"), answer],
        [
            user,
            message("assistant", "Let me see.", tool_calls=[CALL, CALL]),
            message("tool", "4"),
            message("tool", "5"),
            answer,
        ],
        [
            user,
            message("assistant", "", tool_calls=[{"function": {"name": "f", "arguments": '{"x": 1}'}}]),
            message("tool", '{"y": 2}', name="f"),
            answer,
            user,
        ],
        [user, message("assistant", "", tool_calls=[{"name": "f", "arguments": {}}]), message("ipython", {"z": [1]})],
        [user, message("assistant", "<think>\nhm\n</think>\n\nFour.")],
        [user, message("assistant", "Four.", reasoning_content="2 and 2")],
        [
            user,
            message("assistant", "Four.", reasoning_content="2 and 2"),
            user,
            message("assistant", "4", reasoning_content="\nx\n"),
        ],
        [user, message("assistant", "<think>unclosed")],
        [message("user", "a\r\nb\tc\u00a0d\u2028e")],
        [message("user", "line one\n  line two\n\nline four"), message("assistant", "- x\n- y")],
        [message("User", "Role in capitals")],
        [message("critic", "Unknown role")],
        [user, answer] * 6,
        [],
    ]
    all_of = []
    for number, chat in enumerate(chats):
        all_of.append(
            {"messages": chat, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": number % 2 == 0}
        )
    more = [
        {"tools": [TOOL]},
        {"tools": [TOOL, {"type": "function", "function": {"name": "now"}}], "enable_thinking": False},
        {"tools": None, "date_string": "1 Jan 2025"},
        {"tools": [], "enable_thinking": True},
        {"custom_tools": [TOOL], "documents": [{"title": "T", "text": "body"}, {"text": "no title", "page": 3}]},
        {"documents": []},
        {"documents": [{"title": "", "text": "é"}], "tools": [{"name": "bare", "parameters": {}}]},
        {"builtin_tools": ["search"], "tools": [TOOL]},
    ]
    for number, extra in enumerate(more):
        all_of.append(
            {
                "messages": chats[[3, 20, 22, 26, 3, 13, 4, 21][number]],
                "bos_token": "<s>",
                "eos_token": "</s>",
                "add_generation_prompt": True,
                **extra,
            }
        )
    values = {"n": 7, "x": 2.5, "d": {"b": 2, "a": 1, "C": 3}, "words": ["pear", "Apple", "fig", "apple"]}
    return [{**one, **values} for one in all_of]


def main():
    chats = conversations()
    assert len(chats) >= 40
    expected = {}
    for name, text in texts(FOLDER).items():
        rendered = [render(text, chat) for chat in chats]
        expected[name] = rendered[:1] if all(r == rendered[0] for r in rendered) else rendered
    for name, values in (("conversations", chats), ("expected", expected)):
        lines = json.dumps(values, ensure_ascii=False, indent=None, separators=(",", ":"))
        lines = (
            lines.replace('],"', '],\n"') if name == "expected" else lines.replace('},{"messages"', '},\n{"messages"')
        )
        (FOLDER / f"{name}.json").write_text(lines + "\n", encoding="utf-8")
    print(f"{len(expected)} templates, {len(chats)} conversations")


if __name__ == "__main__":
    main()
