"""Runs the property tests of the suite (hypothesis) with many more examples than usual."""

import os
import subprocess
import sys
import time

#: Read by tests/conftest.py: this many times the examples of `make test`, and other ones.
FACTOR = "FUZZ_FACTOR"


def fuzz_for(seconds: float, seed: int) -> int:
    """Round after round, each with a different seed; zero if nothing was found."""
    until = time.monotonic() + seconds
    exit_code = 0
    while not exit_code and time.monotonic() < until:
        print(f"Property tests, seed {seed}", flush=True)
        options = ["-q", "-x", "-m", "hypothesis", f"--hypothesis-seed={seed}", "--timeout=1200"]
        command = [sys.executable, "-m", "pytest", *options, "tests"]
        exit_code = subprocess.run(command, env=os.environ | {FACTOR: "20"}, check=False).returncode
        seed += 1
    return exit_code
