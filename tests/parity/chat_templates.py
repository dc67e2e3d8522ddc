"""Chat templates as transformers 5.24 renders them, on a fixed date."""

import datetime
from pathlib import Path

import jinja2
from transformers.utils import chat_template_utils

DATE = "2024-07-26 12:34:56"


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromisoformat(DATE)


chat_template_utils.datetime = FixedDate


def render(text, variables):
    """{"text"} and, if the template marks what is learned, {"generated"} in bytes; or {"error"}: what
    raise_exception() says, or the name of the error."""
    try:
        template = chat_template_utils._cached_compile_jinja_template(text)
        if "generation" not in text:
            return {"text": template.render(**variables)}
        blocks, ranges = [], []
        with template.environment.activate_tracker(blocks, ranges):
            for block in template.generate(**variables):
                blocks.append(block)
        whole = "".join(blocks)
        return {"text": whole, "generated": [[len(whole[:end].encode()) for end in pair] for pair in ranges]}
    except Exception as error:  # any error of Python is one of the template
        raised = type(error) is jinja2.exceptions.TemplateError
        return {"error": str(error) if raised else type(error).__name__}


def texts(folder):
    """Templates by name: the files of a folder, and the parts of its constructs.txt."""
    found = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.jinja"))}
    parts = Path(folder) / "constructs.txt"
    if parts.exists():
        for number, part in enumerate(parts.read_bytes().decode().split("\n=====\n")):
            found[f"constructs {number + 1}"] = part
    return found
