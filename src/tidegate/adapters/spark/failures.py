"""The cause of a failed query in one line: the innermost cause, without stack traces and query ids."""

from __future__ import annotations

import re

_FRAME = re.compile(r"^\s+(at |\.\.\. \d+ more)")
_CAUSE = re.compile(r"^\s*Caused by: (?:[\w$]+\.)*([\w$]+(?:Exception|Error)?)(?:: (.*))?$")
_STREAM = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_PYTHON = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Exit)): (.+)$")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+$")
_MOST = 300


def cause_of(text: str) -> str:
    """The cause that a user can act on, extracted from Spark's message.

    >>> cause_of("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted. SQLSTATE: XXKST\\n"
    ...          "\\tat org.apache.Some.method\\nCaused by: org.apache.SparkException: Job aborted\\n\\t... 1 more\\n"
    ...          "Caused by: java.io.FileNotFoundException: no such file: a.csv\\n\\tat java.io.Some")
    'FileNotFoundException: no such file: a.csv'
    >>> cause_of("Query [id = 1] terminated with exception: Traceback (most recent call last):\\n"
    ...          '  File "job.py", line 3, in price\\nValueError: the shop is closed\\n')
    'ValueError: the shop is closed'
    """
    lines = [line for line in text.strip().splitlines() if line.strip() and not _FRAME.match(line)]
    if not lines:
        return "no message"
    if any("Traceback (most recent call last)" in line for line in lines):
        raised = [line for line in lines if _PYTHON.match(line.strip()) and not line.startswith("Caused by")]
        inner = [line.strip() for line in raised if "PythonException" not in line and "terminated with" not in line]
        if inner:
            return _cut(inner[0])
    causes = [found for line in lines if (found := _CAUSE.match(line)) and found.group(2)]
    if causes:
        return _cut(f"{causes[-1].group(1)}: {causes[-1].group(2)}")
    return _cut(_STREAM.sub("", lines[0]))


def _cut(text: str) -> str:
    text = _SQLSTATE.sub("", text.strip())
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"
