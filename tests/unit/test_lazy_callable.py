"""Functions that are only loaded by the processes that run them."""

import os
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from secretary import handlers
from secretary.core.callables import LazyCallable
from secretary.worker.sandbox.codec import return_type

from ..minimal_files import pdf

#: What the function needs, and the worker does not.
HEAVY = {"PIL", "lxml", "numpy", "pypdfium2", "tesserocr"}

NAMED = [
    value
    for info in iter_modules(handlers.__path__)
    for value in vars(import_module(f"secretary.handlers.{info.name}")).values()
    if isinstance(value, LazyCallable)
]


@pytest.mark.parametrize("remote", NAMED, ids=lambda remote: str(remote.name))
def test_what_handlers_name_is_there(remote: LazyCallable[Any]) -> None:
    assert return_type(remote.load()) == return_type(remote)
    assert pickle.loads(pickle.dumps(remote)) == remote


def test_a_remote_function_is_called_like_any_other() -> None:
    join: LazyCallable[str] = LazyCallable("core.files", "safe_name")
    assert join("../a.pdf") == "a.pdf"


def test_the_process_that_hands_out_work_does_not_load_what_does_it(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("Hello"))
    program = f"""
import sys; sys.path[:] = {sys.path!r}; sys.argv[1:] = ["convert", "a.pdf"]
from secretary.cli import main
try:
    main()
finally:
    print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "caches")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Hello" in (tmp_path / "a.md").read_text()
    assert "secretary.handlers.pdf" in done.stdout.split()
    assert not HEAVY & set(done.stdout.split())
