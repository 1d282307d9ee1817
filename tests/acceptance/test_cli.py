"""The command line against a running service: on its store, and over HTTP from another machine."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from secretary import __version__

from ..conference_schedules import FOSDEM
from ..minimal_files import pdf
from .program import Program, Running

HOOK = {"url": "https://example.org/hook", "token": "SECRET", "headers": {"X-Key": "SECRET"}}


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path_factory.mktemp("cli"))


@pytest.fixture(scope="module")
def service(owner: Program) -> Iterator[Running]:
    with owner.serving() as running:
        yield running


#: The essentials over HTTP are in test_cli_remote; `make test-extended` runs all of them.
REMOTE = pytest.param("remote", marks=pytest.mark.extended)


@pytest.fixture(scope="module", params=["local", REMOTE])
def program(
    request: pytest.FixtureRequest,
    owner: Program,
    service: Running,
    tmp_path_factory: pytest.TempPathFactory,
) -> Program:
    if request.param == "local":
        return owner
    return Program(tmp_path_factory.mktemp("elsewhere"), SECRETARY_URL=service.url)


def submit(program: Program, *arguments: str) -> str:
    document = program.json("submit", *arguments)
    job_id: str = document["job_id"]
    return job_id


def someone() -> str:
    """A user who owns the jobs of one test."""
    return f"user-{uuid4()}"


class TestSubmit:
    def test_wait_returns_the_completed_job(self, program: Program, service: Running) -> None:
        result = program.run("submit", "selftest", "-p", "seconds=0.1", "--wait", "--json")
        assert result.code == 0
        assert result.json["status"] == "completed"
        assert result.json["results"]["structured_data"]["seconds"] == 0.1

    def test_wait_prints_the_outcome(self, program: Program, service: Running) -> None:
        result = program.run("submit", "selftest", "-p", "seconds=0", "--wait")
        assert re.search(r"status +completed", result.out)

    def test_without_wait_it_prints_the_id(self, program: Program, service: Running) -> None:
        result = program.run("submit", "selftest", "-p", "seconds=0")
        assert re.fullmatch(r"job-[0-9a-f-]{36}\n", result.out)

    def test_a_job_that_fails_gives_exit_code_1(self, program: Program, service: Running) -> None:
        result = program.run("submit", "unheard-of", "--wait", "--json")
        assert result.code == 1
        assert result.json["error"]["code"] == "UNKNOWN_JOB_TYPE"
        assert "There is no handler for 'unheard-of' here (there are: audio, chat" in result.err

    def test_parameters_come_from_json_a_file_and_pairs(
        self, program: Program, service: Running
    ) -> None:
        (program.directory / "parameters.json").write_text('{"seconds": 5, "steps": 2}')
        pairs = ("-p", "seconds=0", "-p", "note=a=b", "-p", 'list=[1, "x"]')
        job = program.json("submit", "selftest", "--parameters", "@parameters.json", *pairs)
        extra = {"note": "a=b", "list": [1, "x"]}
        assert job["parameters"] == {"seconds": 0, "steps": 2, "extra": extra}

    def test_a_file_is_uploaded(self, program: Program, service: Running) -> None:
        (program.directory / "a report.pdf").write_bytes(pdf("Hello"))
        result = program.run("submit", "pdf", "--file", "a report.pdf", "--wait", "--json")
        assert result.code == 0, result.err
        assert (result.json["job_name"], result.json["status"]) == ("a report.pdf", "completed")
        assert "Hello" in result.json["results"]["extracted_text"]

    def test_each_file_becomes_a_job(self, program: Program, service: Running) -> None:
        for name in ("a", "b"):
            (program.directory / f"{name}.pdf").write_bytes(pdf(name.upper()))
        result = program.run("submit", "pdf", "-f", "a.pdf", "-f", "b.pdf", "--wait")
        assert result.code == 0, result.err
        assert [row.split()[-1] for row in result.out.splitlines()[1:]] == ["a.pdf", "b.pdf"]

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["pdf", "--file", "nowhere.pdf"], "--file nowhere.pdf: No such file or directory"),
            (["selftest", "--file", "."], "--file .: Is a directory"),
            (["selftest", "--file", "a.txt"], "of type 'selftest' takes no file"),
        ],
    )
    def test_an_unreadable_file_is_reported(
        self, program: Program, service: Running, arguments: list[str], says: str
    ) -> None:
        (program.directory / "a.txt").write_text("Hello")
        result = program.run("submit", *arguments)
        assert (result.code, says in result.err) == (2, True)
        assert "Traceback" not in result.err

    def test_a_mistyped_job_type_gets_a_suggestion(
        self, program: Program, service: Running
    ) -> None:
        result = program.run("submit", "imageorc", "--run-at", "2090-01-01T00:00:00Z")
        assert result.code == 0
        assert "Did you mean 'imageocr'?" in result.err

    def test_progress_is_printed_as_lines_without_a_terminal(
        self, program: Program, service: Running
    ) -> None:
        result = program.run("submit", "selftest", "-p", "seconds=0.5", "--wait", "--json")
        assert re.search(rf"(?m)^{result.json['job_id']}: \d+ % ", result.err)

    def test_options_reach_the_job(self, program: Program, service: Running) -> None:
        job = program.json(
            "submit", "selftest", "--name", "Mine", "--priority", "-7", "--user", "ann",
            "--run-at", "2090-01-01T08:00:00+01:00", "--max-attempts", "9", "--timeout", "60",
        )  # fmt: skip
        assert (job["job_name"], job["priority"], job["user_id"]) == ("Mine", -7, "ann")
        assert job["run_at"].startswith("2090-01-01T")
        assert (job["max_attempts"], job["timeout_s"]) == (9, 60)

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["-p", "seconds=-1"], "parameters.seconds: Input should be greater than"),
            (["-p", "seconds"], "-p seconds: it must look like key=value"),
            (["--parameters", "{"], "--parameters: this is not JSON"),
            (["--parameters", "[]"], "--parameters: it must be a JSON object"),
            (["--parameters", "@nowhere.json"], "No such file"),
            (["--priority", "101"], "priority: "),
            (["--run-at", "soon"], "run_at: "),
        ],
    )
    def test_invalid_requests_are_rejected_before_they_are_stored(
        self, program: Program, service: Running, arguments: list[str], says: str
    ) -> None:
        name = f"refused {says}"
        result = program.run("submit", "selftest", "--name", name, *arguments)
        assert result.code == 2
        assert says in result.err
        assert "Traceback" not in result.err
        assert name not in program.run("jobs", "list", "--limit", "1000", "--json").out


class TestJobs:
    def test_the_list_is_newest_first_and_paginated(
        self, program: Program, service: Running
    ) -> None:
        user = someone()
        ids = [submit(program, "selftest", "--user", user, "-p", "seconds=0") for _ in range(3)]
        page = program.json("jobs", "list", "--user", user, "--limit", "2")
        assert [job["job_id"] for job in page["jobs"]] == ids[:0:-1]
        assert "results" not in page["jobs"][0]
        rest = program.json(
            "jobs", "list", "--user", user, "--limit", "2", "--cursor", page["next_cursor"]
        )
        assert [job["job_id"] for job in rest["jobs"]] == ids[:1]
        assert rest["next_cursor"] is None

    def test_the_list_can_be_filtered(self, program: Program, service: Running) -> None:
        user = someone()
        job_id = submit(program, "selftest", "-p", "seconds=0", "--user", user)
        service.wait_until(job_id, "completed")
        arguments = ("jobs", "list", "--user", user, "--type", "selftest")
        assert len(program.json(*arguments, "--status", "completed")["jobs"]) == 1
        assert program.json(*arguments, "--status", "failed")["jobs"] == []

    def test_the_table_shows_full_ids(self, program: Program, service: Running) -> None:
        job_id = submit(program, "selftest", "-p", "seconds=0", "--user", "table")
        result = program.run("jobs", "list", "--user", "table")
        assert re.search(rf"(?m)^{job_id} +selftest", result.out)

    def test_show_has_everything_about_a_job(self, program: Program, service: Running) -> None:
        job_id = submit(program, "selftest", "-p", "seconds=0")
        service.wait_until(job_id, "completed")
        assert program.json("jobs", "show", job_id)["results"]["structured_data"]["steps"] == 10
        assert "structured_data" in program.run("jobs", "show", job_id).out

    def test_an_unknown_id_gives_exit_code_4(self, program: Program, service: Running) -> None:
        for command in ("show", "logs", "cancel", "restart"):
            result = program.run("jobs", command, "job-none")
            assert (result.code, result.err) == (4, "There is no job job-none\n")

    def test_a_running_job_is_cancelled(self, program: Program, service: Running) -> None:
        job_id = service.submit(parameters={"seconds": 60})
        service.wait_until(job_id, "processing")
        result = program.run("jobs", "cancel", job_id)
        assert (result.code, result.out) == (0, f"{job_id} will be cancelled\n")
        assert service.wait_until(job_id, "cancelled", seconds=4)["error"]["code"] == "CANCELLED"

    def test_a_finished_job_cannot_be_cancelled(self, program: Program, service: Running) -> None:
        job_id = service.submit(parameters={"seconds": 0})
        service.wait_until(job_id, "completed")
        result = program.run("jobs", "cancel", job_id)
        assert (result.code, result.err) == (1, f"The job {job_id} has already completed\n")

    def test_a_finished_job_can_be_restarted(self, program: Program, service: Running) -> None:
        job_id = service.submit(parameters={"seconds": 0})
        service.wait_until(job_id, "completed")
        assert program.run("jobs", "restart", job_id).code == 0
        assert service.wait_until(job_id, "completed")["attempt"] == 2

    def test_one_failure_does_not_stop_the_remaining_changes(
        self, program: Program, service: Running
    ) -> None:
        job_id = service.submit(run_at="2090-01-01T00:00:00Z")
        result = program.run("jobs", "cancel", "job-none", job_id, "--json")
        assert result.code == 4
        assert [job["status"] for job in result.json["jobs"]] == ["cancelled"]

    def test_jobs_are_archived_and_deleted(self, program: Program, service: Running) -> None:
        user = someone()
        job_id = service.submit(parameters={"seconds": 0}, user_id=user)
        service.wait_until(job_id, "completed")
        assert program.run("jobs", "archive", job_id).out == f"{job_id} is archived\n"
        assert program.json("jobs", "list", "--user", user)["jobs"] == []
        assert len(program.json("jobs", "list", "--user", user, "--all")["jobs"]) == 1
        assert program.run("jobs", "unarchive", job_id).out == f"{job_id} is no longer archived\n"
        assert program.run("jobs", "delete", job_id).out == f"{job_id} is deleted\n"
        assert program.run("jobs", "delete", job_id).code == 4

    def test_an_unfinished_job_cannot_be_deleted(self, program: Program, service: Running) -> None:
        job_id = service.submit(run_at="2090-01-01T00:00:00Z")
        result = program.run("jobs", "delete", job_id)
        assert (result.code, "cancel it before you delete it" in result.err) == (1, True)

    def test_jobs_are_watched_until_they_finish(self, program: Program, service: Running) -> None:
        good = service.submit(parameters={"seconds": 1})
        result = program.run("jobs", "watch", good)
        assert result.code == 0
        assert re.search(rf" {good} selftest completed 100 %\n$", result.out)
        bad = service.submit(job_type="unheard-of")
        result = program.run("jobs", "watch", good, bad, "--json")
        assert result.code == 1
        events = [json.loads(line) for line in result.out.splitlines()]
        ended = {job["job_id"]: job["status"] for job in events}
        assert ended == {good: "completed", bad: "failed"}

    def test_watch_shows_all_active_jobs(self, program: Program, service: Running) -> None:
        user = someone()
        with program.started("jobs", "watch", "--user", user) as watching:
            job_id = service.submit(parameters={"seconds": 60}, user_id=user)
            watching.wait_for(rf"{job_id} selftest processing \d+ % ")
            service.post(f"/api/jobs/{job_id}/cancel")
            watching.wait_for(rf"{job_id} selftest cancelled \d+ % CANCELLED: ")
            watching.interrupt()
            assert watching.wait() == 130
            assert "Traceback" not in watching.err

    def test_tail_follows_the_log_until_the_job_finishes(
        self, program: Program, service: Running
    ) -> None:
        job_id = service.submit(parameters={"seconds": 0.5})
        result = program.run("jobs", "tail", "-f", job_id)
        assert (result.code, result.err) == (0, f"{job_id} is completed\n")
        assert "A sandbox process with Python" in result.out
        assert program.run("jobs", "tail", "-n", "0", job_id).out == ""
        failed = service.submit(job_type="unheard-of")
        result = program.run("jobs", "tail", "-f", failed)
        assert result.code == 1
        assert "(UNKNOWN_JOB_TYPE)" in result.err

    def test_results_are_printed_or_saved(self, program: Program, service: Running) -> None:
        (program.directory / "hello.pdf").write_bytes(pdf("Hello", "World"))
        job = program.run("submit", "pdf", "-f", "hello.pdf", "--wait", "--json").json
        assert program.run("jobs", "result", job["job_id"]).out == "Hello\n\nWorld\n"
        saved = program.run("jobs", "result", job["job_id"], "-o", "made").out.split()
        assert {"made/document.md", "made/page_002.txt", "made/results.json"} <= set(saved)
        assert (program.directory / "made" / "page_002.txt").read_text() == "World"
        files = sorted(path.name for path in (program.directory / "made").iterdir())
        assert files == sorted(Path(name).name for name in saved)

    def test_missing_results_are_explained(self, program: Program, service: Running) -> None:
        waiting = service.submit(run_at="2090-01-01T00:00:00Z")
        result = program.run("jobs", "result", waiting)
        assert (result.code, "is pending. Wait for it: secretary jobs watch" in result.err) == (
            1,
            True,
        )
        failed = service.submit(job_type="unheard-of")
        service.wait_until(failed, "failed")
        result = program.run("jobs", "result", failed)
        assert (result.code, "it failed: There is no handler" in result.err) == (1, True)

    def test_logs_follow_until_the_job_finishes(self, program: Program, service: Running) -> None:
        job_id = service.submit(parameters={"seconds": 0.5})
        result = program.run("jobs", "logs", job_id, "--follow")
        assert service.job(job_id)["status"] == "completed"
        first, *_, last = result.out.splitlines()
        assert re.fullmatch(r"\S+ \S+ info +A sandbox process with Python \S+ answered", first)
        assert re.fullmatch(r"\S+ \S+ info +Completed in .*", last)


class TestBatches:
    def create(self, program: Program, count: int = 2, **document: Any) -> str:
        far = {"job_type": "selftest", "run_at": "2090-01-01T00:00:00Z"}
        text = json.dumps({"jobs": [far] * count, **document})
        result = program.run("batches", "create", "-", stdin=text)
        assert result.code == 0, result.err
        return result.out.strip()

    def test_a_batch_is_created_from_yaml(self, program: Program, service: Running) -> None:
        (program.directory / "batch.yaml").write_text(
            "batch_name: Two\njobs:\n"
            "  - {job_type: selftest, parameters: {seconds: 0}}\n"
            "  - {job_type: selftest, run_at: 2090-01-01T00:00:00Z}\n"
        )
        batch = program.json("batches", "create", "batch.yaml")
        assert (batch["batch_name"], batch["total_jobs"]) == ("Two", 2)
        assert "Two" in program.run("batches", "list").out
        listed = program.json("jobs", "list", "--batch", batch["batch_id"])
        assert len(listed["jobs"]) == 2

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("jobs: [", "neither JSON nor YAML"),
            ("jobs: []", "jobs: "),
            ('{"jobs": [{}, {"job_type": "selftest", "parameters": {"steps": 0}}]}', "jobs.1."),
        ],
    )
    def test_an_invalid_batch_is_rejected_as_a_whole(
        self, program: Program, service: Running, text: str, says: str
    ) -> None:
        result = program.run("batches", "create", "-", stdin=text)
        assert result.code == 2
        assert says in result.err
        assert "Traceback" not in result.err

    def test_a_batch_is_paused_and_resumed(self, program: Program, service: Running) -> None:
        batch_id = self.create(program)
        assert program.json("batches", "pause", batch_id)["isActive"] is False
        assert "paused" in program.run("batches", "list").out
        assert program.json("batches", "resume", batch_id)["isActive"] is True

    def test_a_batch_is_cancelled_archived_and_deleted(
        self, program: Program, service: Running
    ) -> None:
        batch_id = self.create(program)
        assert program.run("batches", "delete", batch_id).code == 1
        assert program.run("batches", "cancel", batch_id).out == "2 jobs cancelled\n"
        assert program.run("batches", "cancel", batch_id).code == 1
        assert program.json("batches", "show", batch_id)["cancelled_jobs"] == 2
        assert program.json("batches", "archive", batch_id)["archived"] is True
        assert batch_id not in program.run("batches", "list").out
        assert batch_id in program.run("batches", "list", "--all").out
        assert program.json("batches", "unarchive", batch_id)["archived"] is False
        assert program.run("batches", "delete", batch_id).code == 0
        assert program.run("batches", "show", batch_id).code == 4

    def test_a_batch_is_watched_until_its_jobs_finish(
        self, program: Program, service: Running
    ) -> None:
        good = {"job_type": "selftest", "parameters": {"seconds": 0.5}}
        for jobs, code in (([good, good], 0), ([good, {"job_type": "unheard-of"}], 1)):
            text = json.dumps({"jobs": jobs})
            batch_id = program.run("batches", "create", "-", stdin=text).out.strip()
            result = program.run("batches", "watch", batch_id, "--json")
            assert result.code == code
            assert result.json["completed_jobs"] == 2 - code
            assert f"{batch_id}: 100 % 2 of 2 jobs have ended" in result.err

    def test_failed_jobs_of_a_batch_run_again(self, program: Program, service: Running) -> None:
        text = json.dumps({"jobs": [{"job_type": "unheard-of"}]})
        batch_id = program.run("batches", "create", "-", stdin=text).out.strip()
        (listed,) = program.json("jobs", "list", "--batch", batch_id)["jobs"]
        service.wait_until(listed["job_id"], "failed")
        assert program.run("batches", "restart-failed", batch_id).out == "1 jobs restarted\n"

    def test_no_secret_is_ever_printed(self, program: Program, service: Running) -> None:
        batch_id = self.create(program, webhook=HOOK)
        job_id = program.json("jobs", "list", "--batch", batch_id)["jobs"][0]["job_id"]
        for command, name in (
            (("jobs", "list", "--batch", batch_id), job_id),
            (("jobs", "show", job_id), job_id),
            (("batches", "show", batch_id), batch_id),
            (("batches", "list"), batch_id),
            (("jobs", "cancel", job_id), job_id),
        ):
            for options in ((), ("--json",)):
                result = program.run(*command, *options)
                assert name in result.out + result.err
                assert "SECRET" not in result.out + result.err


class TestDoctor:
    def test_a_running_service_is_ok(self, program: Program, service: Running) -> None:
        document = program.json("doctor")
        findings = {finding["subject"]: finding for finding in document["findings"]}
        assert findings["store"]["verdict"] == "ok"
        assert findings["workers"]["verdict"] == "ok"
        assert "pdf, selftest, session" in findings["handlers"]["fact"]

    def test_findings_are_printed_as_a_table(self, program: Program, service: Running) -> None:
        assert re.search(r"(?m)^workers +ok", program.run("doctor").out)

    def test_doctor_creates_no_files(self, tmp_path: Path) -> None:
        program = Program(tmp_path)
        assert program.run("doctor").code == 0
        assert not program.data_dir.exists()


class TestImportAndTemplates:
    def test_a_schedule_becomes_a_batch(self, program: Program, service: Running) -> None:
        (program.directory / "schedule.xml").write_text(FOSDEM)
        batch = program.json("import", "schedule.xml", "--track", "rust", "--name", "Mine")
        assert (batch["batch_name"], batch["total_jobs"]) == ("Mine", 1)
        assert service.get(f"/api/batches/{batch['batch_id']}").status_code == 200

    def test_templates_are_listed(self, program: Program, service: Running) -> None:
        templates = {one["name"] for one in program.json("template", "list")["templates"]}
        assert {"Session_en", "Session_de"} <= templates
        assert re.search(r"(?m)^Session_en +shipped +en", program.run("template", "list").out)


class TestGeneral:
    def test_the_version_is_printed(self, program: Program) -> None:
        result = program.run("--version")
        assert (result.code, result.out) == (0, f"secretary {__version__}\n")

    def test_a_wrong_command_gives_exit_code_2(self, program: Program) -> None:
        assert program.run("jbos").code == 2
        assert program.run("jobs", "list", "--limit", "0").code == 2

    def test_listing_does_not_create_a_store(self, tmp_path: Path) -> None:
        program = Program(tmp_path)
        result = program.run("jobs", "list")
        assert result.code == 2
        assert "there are no jobs in" in result.err
        assert not program.data_dir.exists()
