"""The benchmarks page is rendered from the stored results."""

import os
import subprocess
import sys

from .examples import ROOT


def test_the_page_and_its_charts_match_the_stored_results() -> None:
    done = subprocess.run(
        [sys.executable, "bench/run.py", "--page", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
