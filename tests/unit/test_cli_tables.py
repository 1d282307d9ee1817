"""Tables on a terminal: text from outside is shown, and not interpreted as control sequences."""

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

from secretary.cli import output
from secretary.cli.output import echo, echo_err, printable
from secretary.core.job import Batch, Job, JobError

EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[link=file:///etc/passwd]b[/link][/]"
SHOWN = "[link=file:///etc/passwd]b[/link][/]"


def evil_job() -> dict[str, Any]:
    error = JobError(code="X", message=EVIL)
    job = Job(job_type=EVIL, job_name=EVIL, user_id=EVIL, parameters={"a": EVIL}, error=error)
    return job.document()


@pytest.mark.parametrize(
    "show",
    [
        lambda: output.print_jobs([evil_job() | {"error": None}]),
        lambda: output.print_job(evil_job()),
        lambda: output.print_batches([Batch(batch_name=EVIL).document()]),
        lambda: output.print_batch(Batch(batch_name=EVIL, user_id=EVIL).document()),
        lambda: output.print_talks([{"session": EVIL, "track": EVIL, "day": EVIL}]),
    ],
    ids=["jobs", "job", "batches", "batch", "talks"],
)
def test_tables_contain_no_control_characters(
    show: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    show()
    shown = capsys.readouterr().out
    assert SHOWN in shown
    assert not set(shown) & set("\x1b\x07\x9b\u202e")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_text_contains_no_control_characters_except_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    echo(EVIL)
    assert capsys.readouterr().out == EVIL + "\n"
    echo_err(EVIL)
    assert capsys.readouterr().err == printable(EVIL) + "\n"
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    echo(f"{EVIL}\tand\nmore")
    assert terminal.getvalue() == f"{printable(EVIL)}\tand\nmore\n"
    assert not set(terminal.getvalue()) & set("\x1b\x07\x9b\u202e")
