"""What chat templates are compared with: jinja2, set up as transformers sets it up, at one fixed moment."""
import datetime
import json
import subprocess

import jinja2
from transformers.utils import chat_template_utils

NOW = datetime.datetime(2024, 7, 26, 12, 34, 56)


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat_template_utils.datetime = FixedClock


def render(template, variables):
    """{"text": ..., "generation": [[begin, end], ...]} with ranges in bytes, or {"error": ..., "message": ...}."""
    try:
        compiled = chat_template_utils._cached_compile_jinja_template(template)
        blocks, ranges = [], []
        with compiled.environment.activate_tracker(blocks, ranges):
            for block in compiled.generate(**variables):
                blocks.append(block)
        text = "".join(blocks)
        return {"text": text, "generation": [[len(text[:end].encode()) for end in span] for span in ranges]}
    except Exception as problem:  # whatever a template does wrong
        raised = type(problem) is jinja2.exceptions.TemplateError
        return {"error": str(problem) if raised else type(problem).__name__,
                "message": f"{type(problem).__name__}: {problem}"}


class Program:
    """Our evaluator: a program that answers each line of JSON with one."""

    def __init__(self, path):
        self.path, self.process = path, None

    def render(self, template, variables):
        if self.process is None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        question = {"template": template, "variables": variables, "date": str(NOW)}
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self.process.wait()
            self.process = None
            return {"error": f"the program ended, with {code}", "kind": "crash"}
        return json.loads(answer)
