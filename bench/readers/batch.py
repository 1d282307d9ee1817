"""Read files with one tool, in the tool's own environment.

    python batch.py MODULE:FUNCTION OUTPUT_DIRECTORY FILE...

The function returns the tool's reader. Prints one line of JSON when a file is begun
and one with its outcome; the text goes to a file of the same name. A file that takes too long, or a
crash in native code, ends the process: the caller continues with the remaining files.
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


def main(tool: str, output: str, *files: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the tools' own output
    module, _, function = tool.partition(":")
    read = getattr(importlib.import_module(module), function)()
    print(json.dumps({"started": tool}), file=answers)
    for file in map(Path, files):
        print(json.dumps({"begun": file.stem}), file=answers)
        signal.alarm(LIMIT_S)
        before, started = _cpu_seconds(), time.perf_counter()
        answer: dict[str, str | float | None] = {"file": file.stem, "error": None}
        try:
            text = read(str(file))
            answer["wall_s"] = time.perf_counter() - started
        except Exception as error:  # whatever a tool raises is its result
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
