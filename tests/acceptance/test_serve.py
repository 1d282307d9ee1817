"""The service and its workers as processes: startup, responses and shutdown."""

import asyncio
import re
import signal
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from tests.mongod import Mongod

from ..http_servers import files_in
from ..minimal_files import pdf
from ..requirements import needed
from ..webhook_receiver import Receiver
from .program import Program, Running


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


class TestStart:
    def test_what_it_says_to_try_works(self, program: Program) -> None:
        needed("curl")
        with program.serving() as service:
            lines = re.findall(r"(?m)^  (curl .*)$", service.out)
            assert len(lines) == 3
            (program.directory / "document.pdf").write_bytes(pdf("Hello"))
            for line in lines:
                done = subprocess.run(
                    f"{line} --silent --fail",
                    shell=True,
                    capture_output=True,
                    timeout=10,
                    cwd=program.directory,
                )
                assert done.returncode == 0, line
                assert b'"status":"success"' in done.stdout

    def test_without_a_worker_jobs_wait_for_another_process(self, program: Program) -> None:
        with program.serving("--no-worker") as service:
            job_id = service.submit(parameters={"seconds": 0})
            assert service.get("/api/health").json()["data"]["workers"] == 0
            with program.started("worker", "--slots", "1"):
                service.wait_until(job_id, "completed")

    def test_a_worker_claims_only_the_configured_types(self, program: Program) -> None:
        with program.serving("--no-worker") as service:
            other = service.submit(job_type="other")
            mine = service.submit(parameters={"seconds": 0})
            with program.started("worker", "--types", "selftest,pdf"):
                service.wait_until(mine, "completed")
                assert service.job(other)["status"] == "pending"

    def test_it_can_be_reached_from_elsewhere_only_with_a_key(self, tmp_path: Path) -> None:
        program = Program(tmp_path, SECRETARY_API_KEYS="right,bound:ann")
        with program.serving("--host", "0.0.0.0") as service:
            service.url = service.url.replace("0.0.0.0", "127.0.0.1")
            assert service.get("/api/health").status_code == 200
            assert service.get("/api/jobs").status_code == 401
            key = {"Authorization": "Bearer right"}
            assert service.get("/api/jobs", headers=key).status_code == 200


class TestDevelopment:
    WARNING = "network.allow_private is on"

    async def test_one_switch_allows_callbacks_and_downloads_on_this_machine(
        self, tmp_path: Path
    ) -> None:
        files = tmp_path / "files"
        files.mkdir()
        (files / "a.pdf").write_bytes(pdf("Hello"))
        program = Program(tmp_path, SECRETARY_NETWORK__ALLOW_PRIVATE="true")
        with (
            Receiver().running() as receiver,
            files_in(files) as url,
            program.serving() as service,
            program.started("worker") as worker,
        ):
            form = {
                "url": f"{url}/a.pdf".replace("127.0.0.1", "localhost"),
                "callback_url": receiver.url(),
                "callback_token": "T",
            }
            response = service.post("/api/pdf/process", data=form)
            assert response.status_code == 202, response.text
            while (await receiver.wait_for())[-1].json["phase"] != "completed":
                await asyncio.sleep(0.02)
            metadata = "http://169.254.169.254/latest/meta-data/a.pdf"
            job_id = service.post("/api/pdf/process", {"url": metadata}).json()["job_id"]
            assert service.wait_until(job_id, "failed")["error"]["code"] == "DOWNLOAD_FAILED"
            refused = service.post(
                "/api/pdf/process", {"url": f"{url}/a.pdf", "callback_url": metadata}
            )
            assert (refused.status_code, "169.254" in refused.text) == (400, True)
            system = service.get("/api/system").json()["data"]
            assert self.WARNING in str(system["engines"])
            assert system["settings"]["network"]["allow_private"] is True
            worker.wait_for("takes jobs")
            assert [self.WARNING in process.err for process in (service, worker)] == [True, True]
        findings = {one["subject"]: one for one in program.json("doctor")["findings"]}
        assert findings["network"]["verdict"] == "warning"
        assert self.WARNING in findings["network"]["fact"]

    def test_without_the_switch_nothing_is_said(self, program: Program) -> None:
        with program.serving() as service:
            url = "http://127.0.0.1:3000/hook"
            body = {"url": "https://example.com/a.pdf", "callback_url": url}
            assert service.post("/api/pdf/process", body).status_code == 400
            assert self.WARNING not in service.err


class TestMetrics:
    def test_the_service_exports_what_its_worker_did(self, program: Program) -> None:
        ended = 'secretary_jobs_ended_total{code="",job_type="selftest",status="completed"} 1.0'
        with program.serving() as service:
            service.wait_until(service.submit(parameters={"seconds": 0}), "completed")
            service.wait_for_answer("/metrics", text=ended)  # counted after the job has finished

    def test_a_worker_reports_what_it_did_and_whether_it_is_ready(self, program: Program) -> None:
        ended = 'secretary_jobs_ended_total{code="",job_type="selftest",status="completed"} 1.0'
        with (
            program.serving("--no-worker") as service,
            program.started("worker", "--metrics-port", "0") as worker,
        ):
            worker.url = worker.wait_for(r"Metrics are at (\S+)/metrics")
            service.wait_until(service.submit(parameters={"seconds": 0}), "completed")
            worker.wait_for_answer("/metrics", text=ended)
            assert "secretary_workers 1.0" in worker.get("/metrics").text
            assert worker.get("/api/health/ready").status_code == 200
            assert worker.get("/api/jobs").status_code == 404
            running = service.submit(parameters={"seconds": 5})
            service.wait_until(running, "processing")
            worker.process.send_signal(signal.SIGTERM)
            worker.wait_for_answer("/api/health/ready", status=503)
            assert worker.wait() == 0
            assert service.job(running)["status"] == "completed"
        assert "Traceback" not in worker.err


class TestMongodb:
    def test_service_worker_and_commands_meet_in_the_database(
        self, tmp_path: Path, mongod: Mongod
    ) -> None:
        url = mongod.url(f"test_{uuid4().hex[:12]}")
        program = Program(tmp_path, MONGODB_URI=url)
        with program.serving("--no-worker") as service, program.started("worker"):
            job_id = service.submit(parameters={"seconds": 0})
            service.wait_until(job_id, "completed")
            assert program.json("jobs", "show", job_id)["status"] == "completed"
            document = program.json("doctor")
        findings = {finding["subject"]: finding for finding in document["findings"]}
        assert findings["store"]["verdict"] == "ok"
        assert "replica set" in findings["store"]["fact"]
        assert findings["workers"]["verdict"] == "ok"


class TestWaiting:
    def test_waiting_for_a_job_warns_that_no_worker_runs(self, program: Program) -> None:
        arguments = ("submit", "selftest", "-p", "seconds=0", "--wait")
        with program.started(*arguments) as waiting:
            waiting.wait_for("No worker is running, so the job waits. Start one")
            with program.started("worker"):
                assert waiting.wait() == 0
        assert re.search(r"status +completed", waiting.out)

    def test_an_interrupted_wait_gives_exit_code_130(self, program: Program) -> None:
        with program.started("submit", "selftest", "--wait") as waiting:
            waiting.wait_for("waiting to start")
            waiting.interrupt()
            assert waiting.wait() == 130
        assert "Traceback" not in waiting.err


class TestEnd:
    @pytest.mark.parametrize("how", ["SIGTERM", "Ctrl-C"])
    def test_the_first_signal_lets_running_jobs_end_while_the_api_answers(
        self, program: Program, how: str
    ) -> None:
        with program.serving() as service:
            job_id = service.submit(parameters={"seconds": 5})
            service.wait_until(job_id, "processing")
            waiting_job = service.submit(run_at="2090-01-01T00:00:00Z")
            assert service.get("/api/health/ready").status_code == 200
            stop(service, how)
            ready = service.wait_for_answer("/api/health/ready", status=503)
            assert ready.json()["error"]["code"] == "UNAVAILABLE"
            assert service.get("/api/health/live").status_code == 200
            assert service.job(job_id)["status"] == "processing"
            assert service.wait() == 0
        assert "Traceback" not in service.err
        assert program.json("jobs", "show", job_id)["status"] == "completed"
        assert program.json("jobs", "show", waiting_job)["status"] == "pending"

    def test_the_second_signal_ends_at_once_and_costs_the_job_nothing(
        self, program: Program
    ) -> None:
        with program.serving() as service:
            job_id = service.submit(parameters={"seconds": 60}, max_attempts=1)
            service.wait_until(job_id, "processing")
            service.process.send_signal(signal.SIGTERM)
            service.wait_for_answer("/api/health/ready", status=503)
            service.process.send_signal(signal.SIGTERM)
            assert service.wait(seconds=5) == 0
        job = program.json("jobs", "show", job_id)
        assert (job["status"], job["error"]) == ("pending", None)

    def test_without_a_worker_it_ends_at_the_first_signal(self, program: Program) -> None:
        with program.serving("--no-worker") as service:
            service.interrupt()
            assert service.wait(seconds=5) == 0

    def test_a_worker_ends_at_a_signal(self, program: Program) -> None:
        with program.started("worker") as worker:
            worker.wait_for("takes jobs")
            worker.interrupt()
            assert worker.wait(seconds=5) == 0
        assert "Traceback" not in worker.err


def stop(service: Running, how: str) -> None:
    if how == "SIGTERM":
        service.process.send_signal(signal.SIGTERM)
    else:
        service.interrupt()
