"""`secretary import`, as an operator uses it."""

import json
import re
from pathlib import Path

import pytest

from ..conference_schedules import FOSDEM, pretalx_json
from .program import Program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    program = Program(tmp_path_factory.mktemp("import"))
    (program.directory / "schedule.xml").write_text(FOSDEM)
    (program.directory / "schedule.json").write_bytes(pretalx_json())
    return program


def test_a_schedule_becomes_a_batch_of_session_jobs(program: Program) -> None:
    result = program.run(
        "import", "schedule.xml", "--event", "FOSDEM 31", "--track", "rust", "--track", "main*",
        "-p", "target_language=de", "--priority", "3", "--name", "Mine", "--user", "ann",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert re.fullmatch(r"batch-[0-9a-f-]{36}\n", result.out)
    assert "2 jobs wait for a worker" in result.err
    batch = program.json("batches", "show", result.out.strip())
    assert (batch["batch_name"], batch["total_jobs"], batch["user_id"]) == ("Mine", 2, "ann")
    jobs = program.json("jobs", "list", "--batch", batch["batch_id"])["jobs"]
    assert {job["parameters"]["track"] for job in jobs} == {"Rust", "Main Track - Janson"}
    assert {job["parameters"]["event"] for job in jobs} == {"FOSDEM 31"}
    assert {job["parameters"]["target_language"] for job in jobs} == {"de"}
    assert {(job["job_type"], job["priority"]) for job in jobs} == {("session", 3)}


def test_a_dry_run_shows_the_jobs_without_submitting_them(tmp_path: Path) -> None:
    program = Program(tmp_path)
    (tmp_path / "schedule.json").write_bytes(pretalx_json())
    result = program.run("import", "schedule.json", "--dry-run")
    assert result.code == 0, result.err
    assert re.search(r"2031-09-12 11:00 Birds +yes +yes +Ducks in a row", result.out)
    assert "1 jobs; nothing was added" in result.err
    assert not list(tmp_path.rglob("secretary.db"))


def test_the_output_of_a_dry_run_can_be_submitted(program: Program) -> None:
    plan = program.json(
        "import", "schedule.xml", "--dry-run", "--day", "2", "-p", "template=Session"
    )
    assert [job["parameters"]["session"] for job in plan["jobs"]] == ["Welcome", "WELCOME"]
    assert plan["jobs"][0]["parameters"]["template"] == "Session"
    (program.directory / "batch.json").write_text(json.dumps(plan))
    made = program.json("batches", "create", "batch.json")
    assert (made["batch_name"], made["total_jobs"]) == ("FOSDEM 2031", 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere.xml",), "nowhere.xml: No such file"),
        (("schedule.xml", "--track", "Perl"), "Tracks: Main Track - Janson, Rust, Go."),
        (("http://10.0.0.1/schedule.xml",), "url:"),
        (("schedule.xml", "-p", "use_cache=maybe"), "use_cache"),
    ],
)
def test_invalid_imports_are_rejected_without_effect(
    program: Program, arguments: tuple[str, ...], says: str
) -> None:
    before = program.json("batches", "list")["batches"]
    result = program.run("import", *arguments)
    assert result.code == 2 and says in result.err
    assert "Traceback" not in result.err
    assert program.json("batches", "list")["batches"] == before


def test_an_invalid_schedule_is_reported(program: Program) -> None:
    (program.directory / "broken.xml").write_text("<schedule>")
    result = program.run("import", "broken.xml")
    assert result.code == 1 and "The schedule is not valid XML" in result.err
