#!/usr/bin/env bash
# Expected: the `else` of a loop in Jinja is for a sequence without items, as its documentation says.
# So it is: it runs whenever no item got to the end of the body, so also after `continue` or `break` at each of them.
#
#   findings/jinja_else_after_continue.sh     in a temporary folder; PYTHON=... is an interpreter that has it
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=${PYTHON:-$folder/venv/bin/python}
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv"
  "$python" -m pip install -q jinja2==3.1.6
fi
"$python" - <<'END'
import sys
from importlib.metadata import version
from jinja2 import Environment

# A chat template that leaves the system's message out, and says so where there is no message.
TEMPLATE = ("{% for m in messages %}{% if m == 'system' %}{{ end }}{% endif %}<{{ m }}>"
            "{% else %}(no messages){% endfor %}")
environment = Environment(extensions=["jinja2.ext.loopcontrols"])
print("jinja2", version("jinja2"))
seen = []
for how in ("continue", "break"):
    template = environment.from_string(TEMPLATE.replace("{{ end }}", "{% " + how + " %}"))
    for messages in ([], ["system"], ["system", "user"]):
        seen.append(template.render(messages=messages))
        print(f"{how:8} {str(messages):20} {seen[-1]}")
sys.exit(0 if seen == ["(no messages)", "(no messages)", "<user>"] + ["(no messages)"] * 3 else 1)
END
