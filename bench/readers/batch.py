"""Reads files with one tool, in the tool's own environment, and says what it took.

    python batch.py MODULE OUTPUT_DIRECTORY FILE...

One line of JSON for each file on standard output: when it is begun, then what came of it. The
text goes to a file of the same name. A file that takes too long ends the process; so may a fault
in native code. The caller sees which one it was and goes on with the rest.
"""

import importlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

LIMIT_S = 180


def main(module: str, output: str, *files: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the tools print themselves is no answer
    reader = importlib.import_module(module)
    print(json.dumps({"version": reader.VERSION, "cpu_s": _cpu_seconds()}), file=answers)
    for file in map(Path, files):
        print(json.dumps({"begun": file.stem}), file=answers)
        signal.alarm(LIMIT_S)
        before, started = _cpu_seconds(), time.perf_counter()
        answer: dict[str, str | float | None] = {"file": file.stem, "error": None}
        try:
            text = reader.read(str(file))
            answer["wall_s"] = time.perf_counter() - started
        except Exception as error:  # any fault of a tool is a figure of it
            answer["error"] = f"{type(error).__name__}: {error}"[:200]
        else:
            target = Path(output) / f"{file.stem}.md"
            target.write_text(text, encoding="utf-8", errors="replace")
        signal.alarm(0)
        answer["cpu_s"] = _cpu_seconds() - before
        print(json.dumps(answer), file=answers)


def _cpu_seconds() -> float:
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(sum(resource.getrusage(who)[:2]) for who in both)


if __name__ == "__main__":
    main(*sys.argv[1:])
