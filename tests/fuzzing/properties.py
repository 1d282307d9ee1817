"""The tests of the suite that take any value (hypothesis), with many more values than usual."""

import os
import subprocess
import sys
import time

#: Read by tests/conftest.py: so many times the values of `make test`, and other ones.
FACTOR = "FUZZ_FACTOR"


def fuzz_for(seconds: float, seed: int) -> int:
    """Round after round, each with a seed of its own; zero when nothing was found."""
    until = time.monotonic() + seconds
    exit_code = 0
    while not exit_code and time.monotonic() < until:
        print(f"All values of seed {seed}", flush=True)
        options = ["-q", "-x", "-m", "hypothesis", f"--hypothesis-seed={seed}", "--timeout=1200"]
        command = [sys.executable, "-m", "pytest", *options, "tests"]
        exit_code = subprocess.run(command, env=os.environ | {FACTOR: "20"}, check=False).returncode
        seed += 1
    return exit_code
