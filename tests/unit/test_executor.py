"""How a claimed job is executed and finishes."""

import asyncio
import errno
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from secretary import JobContext, Registry, handles
from secretary.core.errors import FileCorrupt, StoreUnavailable, UpstreamFailed, WorkerCrashed
from secretary.core.job import (
    Job,
    JobError,
    JobStatus,
    Progress,
    ResourceCalculator,
    Webhook,
    utc_now,
)
from secretary.jobs.handler import AnyParameters
from secretary.llm import Endpoints
from secretary.llm.templates import Library
from secretary.storage.artifacts import JobFiles
from secretary.storage.sources import Sources
from secretary.store import Store, Usage
from secretary.worker.executor import Execution, Executor, Stop, backoff
from secretary.worker.sandbox import Sandbox

from ..contract.factories import LAPSED, LEASE, claim
from ..llm_server import llm_server, says
from ..vision_handler import seeing

Context = JobContext[AnyParameters]


@pytest.fixture
def executor(store: Store, tmp_path: Path) -> Executor:
    return Executor(
        store=store,
        registry=Registry(),
        sandbox=Sandbox(1),
        files=JobFiles(tmp_path),
        sources=Sources(tmp_path),
    )


async def run(executor: Executor, job: Job, *, lease: timedelta = LEASE) -> Job:
    """The job as it is stored after one attempt."""
    await executor.store.add([job])
    (claimed,) = await claim(executor.store, lease=lease)
    await Execution(executor, claimed).task
    return await executor.store.get(job.job_id)


async def start(executor: Executor, job_type: str) -> Any:
    await executor.store.add([Job(job_type=job_type)])
    (claimed,) = await claim(executor.store)
    return Execution(executor, claimed)


async def test_what_a_handler_returns_becomes_the_results(executor: Executor) -> None:
    class Greeting(BaseModel):
        text: str

    class Whom(BaseModel):
        name: str

    @handles("greet", Whom)
    async def greet(ctx: JobContext[Whom]) -> Greeting:
        ctx.resources.add("pages", 2)
        return Greeting(text=f"Hello {ctx.parameters.name}")

    executor.registry.add(greet)
    done = await run(executor, Job(job_type="greet", parameters={"extra": {"name": "Ann"}}))
    assert (done.status, done.results) == (JobStatus.COMPLETED, {"text": "Hello Ann"})
    assert done.resources == {"pages": 2}


async def test_what_an_attempt_used_counts_for_its_user_however_it_ends(
    executor: Executor,
) -> None:
    @handles("greedy")
    async def greedy(ctx: Context) -> None:
        ctx.resources.add("pages", 2)
        ctx.resources.add("audio_seconds", float("nan"))
        (ctx.directory / "page.txt").write_text("12345")
        if ctx.job.parameters:
            raise FileCorrupt("torn")

    executor.registry.add(greedy)
    today, counting = utc_now().date(), replace(executor, counts_usage=True)
    done = await run(counting, Job(job_type="greedy", user_id="ann"))
    assert (await executor.store.usage(today, "ann")).pages == 2
    assert done.stored_bytes == await executor.store.stored_bytes("ann") == 5
    failed = Job(job_type="greedy", user_id="ann", parameters={"fail": True}, stored_bytes=7)
    assert (await run(counting, failed)).stored_bytes == 7  # its upload is kept
    assert await executor.store.usage(today, "ann") == Usage(pages=4, users=1)
    await run(counting, Job(job_type="greedy"))
    await run(executor, Job(job_type="greedy", user_id="ann"))
    assert await executor.store.usage(today) == Usage(pages=4, users=1)


@pytest.mark.parametrize("outside", [False, True])
async def test_a_handler_asks_a_model_and_what_that_took_is_kept(
    executor: Executor, tmp_path: Path, outside: bool
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "Mine.md").write_text("# {{title|Title}}")
    async with llm_server(says("# Seen")) as server:
        templates = Library(tmp_path / "own")
        executor = replace(executor, llm=Endpoints(server.options()), templates=templates)
        if outside:
            executor.registry.load("tests.vision_handler:register")
        else:
            executor.registry.add(seeing)
        await executor.sandbox.open()
        try:
            done = await run(executor, Job(job_type="seeing"))
        finally:
            await executor.sandbox.close()
            await executor.llm.close()
    assert done.results is not None
    assert done.results["markdown_content"] == "# Seen"
    assert done.results["templates"] == ["Mine"]
    assert done.results["llm_info"]["total_tokens"] == 120
    assert done.resources["llm_output_tokens"] == 20


async def test_a_handler_that_needs_a_model_fails_where_none_is_set(executor: Executor) -> None:
    executor.registry.add(seeing)
    done = await run(executor, Job(job_type="seeing"))
    assert done.error is not None
    assert done.error.code == "ENGINE_UNAVAILABLE"
    assert "llm.base_url" in done.error.message


async def test_bad_parameters_fail_the_job_and_name_the_field(executor: Executor) -> None:
    class Whom(BaseModel):
        name: str

    @handles("greet", Whom)
    async def greet(ctx: JobContext[Whom]) -> None: ...

    executor.registry.add(greet)
    failed = await run(executor, Job(job_type="greet"))
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (JobStatus.FAILED, "VALIDATION_ERROR")
    assert "name" in failed.error.message


async def test_an_unknown_type_fails_at_once(executor: Executor) -> None:
    failed = await run(executor, Job(job_type="nonsense"))
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (JobStatus.FAILED, "UNKNOWN_JOB_TYPE")
    assert "nonsense" in failed.error.message


async def test_an_unexpected_error_is_not_shown_to_the_client(executor: Executor) -> None:
    @handles("broken")
    async def broken(ctx: Context) -> None:
        raise KeyError("secret-token")

    executor.registry.add(broken)
    failed = await run(executor, Job(job_type="broken"))
    assert failed.error == JobError(
        code="INTERNAL_ERROR", message="Internal error", details={"type": "KeyError"}
    )


async def test_results_that_are_no_json_fail_the_job(executor: Executor) -> None:
    @handles("odd")
    async def odd(ctx: Context) -> dict[str, Any]:
        return {"thing": object()}

    executor.registry.add(odd)
    failed = await run(executor, Job(job_type="odd"))
    assert failed.error is not None
    assert (failed.status, failed.error.details) == (JobStatus.FAILED, {"type": "TypeError"})


@pytest.mark.parametrize("amount", [float("nan"), float("inf")])
@pytest.mark.parametrize("fails", [False, True])
async def test_amounts_that_are_no_numbers_do_not_keep_a_job_from_ending(
    executor: Executor, amount: Any, fails: bool
) -> None:
    @handles("greedy")
    async def greedy(ctx: Context) -> None:
        ctx.resources.add("pages", amount)
        if fails:
            raise FileCorrupt("no")

    executor.registry.add(greedy)
    failed = await run(executor, Job(job_type="greedy"))
    assert failed.error is not None
    assert failed.status is JobStatus.FAILED
    assert failed.error.code == ("FILE_CORRUPT" if fails else "INTERNAL_ERROR")
    assert failed.resources == {}


async def test_results_that_are_nested_too_deep_fail_the_job(executor: Executor) -> None:
    @handles("deep")
    async def deep(ctx: Context) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for _ in range(5000):
            results = {"inner": results}
        return results

    executor.registry.add(deep)
    failed = await run(executor, Job(job_type="deep"))
    assert failed.error is not None
    assert (failed.status, failed.error.details) == (JobStatus.FAILED, {"type": "RecursionError"})


async def test_a_retryable_failure_is_tried_again_until_the_last_attempt(
    executor: Executor,
) -> None:
    @handles("flaky", max_attempts=2)
    async def flaky(ctx: Context) -> None:
        error = UpstreamFailed("503", service="ocr")
        error.retry_after = timedelta(0)
        raise error

    executor.registry.add(flaky)
    waiting = await run(executor, Job(job_type="flaky"))
    assert (waiting.status, waiting.failures) == (JobStatus.PENDING, 1)
    assert waiting.error is not None and waiting.error.details == {"service": "ocr"}
    (again,) = await claim(executor.store)
    await Execution(executor, again).task
    failed = await executor.store.get(waiting.job_id)
    assert (failed.status, failed.failures, len(failed.attempts)) == (JobStatus.FAILED, 2, 2)


async def test_work_is_retried_if_the_disk_is_full(executor: Executor) -> None:
    @handles("large", max_attempts=2)
    async def large(ctx: Context) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    executor.registry.add(large)
    waiting = await run(executor, Job(job_type="large"))
    assert waiting.error is not None
    assert (waiting.status, waiting.error.code) == (JobStatus.PENDING, "FILE_TOO_LARGE")
    assert "disk is full" in waiting.error.message


async def test_a_failure_that_no_retry_can_mend_is_final(executor: Executor) -> None:
    @handles("corrupt")
    async def corrupt(ctx: Context) -> None:
        raise FileCorrupt("The file ends in the middle")

    executor.registry.add(corrupt)
    failed = await run(executor, Job(job_type="corrupt"))
    assert (failed.status, failed.failures) == (JobStatus.FAILED, 1)


async def test_a_job_that_takes_its_process_down_twice_fails(executor: Executor) -> None:
    @handles("deadly")
    async def deadly(ctx: Context) -> None:
        error = WorkerCrashed("The process died of SIGSEGV", signal="SIGSEGV")
        error.retry_after = timedelta(0)
        raise error

    executor.registry.add(deadly)
    waiting = await run(executor, Job(job_type="deadly", max_attempts=1))
    assert (waiting.status, waiting.crashes, waiting.failures) == (JobStatus.PENDING, 1, 0)
    (again,) = await claim(executor.store)
    await Execution(executor, again).task
    failed = await executor.store.get(waiting.job_id)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (JobStatus.FAILED, "WORKER_CRASHED")
    assert failed.error.details == {"signal": "SIGSEGV"}


async def test_scratch_files_are_removed_before_the_outcome_is_reported(
    executor: Executor, tmp_path: Path
) -> None:
    """Nobody would remove them if the process died right after recording the outcome."""

    @handles("messy")
    async def messy(ctx: Context) -> None:
        (ctx.scratch / "x").touch()
        (ctx.directory / "y").touch()

    executor.registry.add(messy)
    seen: list[list[str]] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            if name == "finish":
                seen.append(sorted(path.name for path in tmp_path.glob("jobs/*/*")))
            return getattr(executor.store, name)

    watched: Any = Watched()
    done = await run(replace(executor, store=watched), Job(job_type="messy"))
    assert done.status is JobStatus.COMPLETED
    assert seen == [["1"]]


async def test_what_a_store_wrote_before_it_broke_off_is_no_lost_job(executor: Executor) -> None:
    """Such as a MongoDB election: the outcome is stored, but not acknowledged."""

    @handles("writer")
    async def writer(ctx: Context) -> None:
        (ctx.directory / "page_001.txt").write_text("hello")

    executor.registry.add(writer)
    finish = executor.store.finish
    broken: list[bool] = []

    class Breaking:
        def __getattr__(self, name: str) -> Any:
            return getattr(executor.store, name)

        async def finish(self, *args: Any, **options: Any) -> None:
            await finish(*args, **options)
            if not broken:
                broken.append(True)
                raise StoreUnavailable("It has no primary now")

    breaking: Any = Breaking()
    ended: list[str] = []
    other_executor = replace(executor, store=breaking, on_ended=ended.append)
    job = Job(job_type="writer", webhook=Webhook(url="https://example.org"))
    done = await run(other_executor, job)
    assert (done.status, broken, ended) == (JobStatus.COMPLETED, [True], [job.job_id])
    assert (executor.files.root / done.job_id / "1" / "page_001.txt").exists()


async def test_of_what_a_job_says_while_the_store_is_away_the_last_is_kept(
    executor: Executor,
) -> None:
    away = asyncio.Event()

    @handles("chatty")
    async def chatty(ctx: Context) -> None:
        for n in range(3000):
            await ctx.log(f"line {n}")
        await asyncio.wait_for(away.wait(), 10)

    executor.registry.add(chatty)
    messages: list[int] = []

    class Away:
        def __getattr__(self, name: str) -> Any:
            return getattr(executor.store, name)

        async def report(self, job: Job, progress: Any, logs: Any) -> None:
            messages.append(len(logs))
            if not away.is_set():
                away.set()
                raise StoreUnavailable("It does not answer")
            await executor.store.report(job, progress, logs)

    store: Any = Away()
    done = await run(replace(executor, store=store), Job(job_type="chatty"))
    assert (done.status, messages) == (JobStatus.COMPLETED, [3000, 1001])
    assert [done.logs[1].message, done.logs[-2].message] == ["line 2001", "line 2999"]
    assert done.logs[-1].message.startswith("Completed in ")


async def test_a_cancelled_job_stops_its_handler(executor: Executor) -> None:
    cleaned_up = asyncio.Event()

    @handles("slow")
    async def slow(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned_up.set()

    executor.registry.add(slow)
    execution = await start(executor, "slow")
    await asyncio.sleep(0)
    execution.stop(Stop.CANCELLED)
    await execution.task
    ended = await executor.store.get(execution.job.job_id)
    assert (ended.status, cleaned_up.is_set()) == (JobStatus.CANCELLED, True)


async def test_an_interrupted_job_goes_back_to_the_queue_at_no_cost(executor: Executor) -> None:
    @handles("slow")
    async def slow(ctx: Context) -> None:
        await asyncio.sleep(60)

    executor.registry.add(slow)
    execution = await start(executor, "slow")
    await asyncio.sleep(0)
    execution.stop(Stop.INTERRUPTED)
    await execution.task
    waiting = await executor.store.get(execution.job.job_id)
    assert (waiting.status, waiting.failures, waiting.crashes) == (JobStatus.PENDING, 0, 0)


async def test_a_job_that_was_lost_writes_nothing(executor: Executor) -> None:
    @handles("slow")
    async def slow(ctx: Context) -> dict[str, str]:
        await executor.store.rescue()
        return {"by": "the wrong one"}

    executor.registry.add(slow)
    stored = await run(executor, Job(job_type="slow"), lease=LAPSED)
    assert (stored.status, stored.results) == (JobStatus.PENDING, None)


async def test_a_job_lost_at_the_last_moment_leaves_its_new_owners_files_alone(
    executor: Executor,
) -> None:
    @handles("slow")
    async def slow(ctx: Context) -> None:
        await executor.store.rescue()
        (anew,) = await claim(executor.store, "worker-2")
        directory = Path(executor.files.attempt_directory(anew))
        directory.mkdir(parents=True)
        (directory / "result.txt").write_text("the new owner's")

    executor.registry.add(slow)
    stored = await run(executor, Job(job_type="slow"), lease=LAPSED)
    assert stored.attempt == 2
    assert (Path(executor.files.attempt_directory(stored)) / "result.txt").exists()


async def test_a_job_past_its_time_limit_fails_by_name(executor: Executor) -> None:
    @handles("slow", timeout=timedelta(seconds=60))
    async def slow(ctx: Context) -> None:
        await asyncio.sleep(60)

    executor.registry.add(slow)
    failed = await run(executor, Job(job_type="slow", timeout_s=0.01))
    assert failed.error is not None
    assert (failed.error.code, failed.error.details) == (
        "PROCESSING_TIMEOUT", {"limit_seconds": 0.01},
    )  # fmt: skip


async def test_a_timeout_inside_the_handler_is_an_unexpected_error(executor: Executor) -> None:
    @handles("slow")
    async def slow(ctx: Context) -> None:
        raise TimeoutError("a socket")

    executor.registry.add(slow)
    failed = await run(executor, Job(job_type="slow"))
    assert failed.error is not None and failed.error.code == "INTERNAL_ERROR"


async def test_progress_and_logs_reach_the_store(executor: Executor) -> None:
    @handles("chatty")
    async def chatty(ctx: Context) -> None:
        await ctx.log("begun")
        for percent in range(50):
            await ctx.progress("reading", percent)
        await ctx.log("over", "warning")
        raise FileCorrupt("no")

    executor.registry.add(chatty)
    failed = await run(executor, Job(job_type="chatty"))
    *logs, last = [(entry.level, entry.message) for entry in failed.logs]
    assert logs == [("info", "begun"), ("warning", "over")]
    assert last[0] == "error" and last[1].endswith(": no (FILE_CORRUPT)")
    assert failed.progress == Progress(step="reading", percent=49)


async def test_files_of_a_completed_job_stay_and_those_of_a_failed_one_go(
    executor: Executor,
) -> None:
    @handles("writer")
    async def writer(ctx: Context) -> None:
        (ctx.directory / "page_001.txt").write_text("hello")
        if ctx.job.parameters.get("fail"):
            raise FileCorrupt("no")

    executor.registry.add(writer)
    done = await run(executor, Job(job_type="writer"))
    failed = await run(executor, Job(job_type="writer", parameters={"fail": True}))
    assert (executor.files.root / done.job_id / "1" / "page_001.txt").exists()
    assert not (executor.files.root / failed.job_id / "1").exists()


async def test_a_handler_in_the_first_designs_form_runs_unchanged(executor: Executor) -> None:
    async def handle_audio_job(
        job: Any, repo: Any, resource_calculator: ResourceCalculator
    ) -> None:
        assert job.parameters.filename == "a.mp3"
        assert job.parameters.extra["language"] == "de"
        repo.add_log_entry(job.job_id, "info", "started")
        repo.update_job_status(
            job_id=job.job_id, status="processing", progress=Progress(step="listen", percent=20)
        )
        resource_calculator.add("seconds", 3)
        repo.update_job_status(job.job_id, JobStatus.COMPLETED, results={"transcript": "hello"})

    executor.registry.register("audio", handle_audio_job)
    parameters = {"filename": "a.mp3", "extra": {"language": "de"}}
    done = await run(executor, Job(job_type="audio", parameters=parameters))
    assert (done.status, done.results) == (JobStatus.COMPLETED, {"transcript": "hello"})
    assert done.logs[0].message == "started"
    assert done.resources == {"seconds": 3}


async def test_such_a_handler_can_report_a_failure(executor: Executor) -> None:
    async def handle(job: Any, repo: Any, resource_calculator: ResourceCalculator) -> None:
        error = {"code": "DOWNLOAD_FAILED", "message": "404", "details": {"url": "x"}}
        repo.update_job_status(job.job_id, "failed", error=error)

    executor.registry.register("audio", handle)
    failed = await run(executor, Job(job_type="audio"))
    assert failed.error == JobError(code="DOWNLOAD_FAILED", message="404", details={"url": "x"})


async def test_no_code_of_an_error_keeps_a_job_from_ending(executor: Executor) -> None:
    async def handle(job: Any, repo: Any, resource_calculator: ResourceCalculator) -> None:
        repo.update_job_status(job.job_id, "failed", error={"code": "\ud800", "message": "no"})

    executor.registry.register("audio", handle)
    failed = await run(executor, Job(job_type="audio"))
    assert failed.error == JobError(code="\ufffd", message="no")


def test_the_wait_between_tries_grows_and_is_never_the_same_for_all() -> None:
    error = UpstreamFailed("503")
    waits = [backoff(error, tries).total_seconds() for tries in range(20)]
    assert 5 <= waits[0] <= 15 and 20 <= waits[2] <= 60
    assert max(waits) <= 15 * 60 * 1.5
    assert len(set(waits)) == len(waits)
    error.retry_after = timedelta(seconds=7)
    assert backoff(error, 5) == timedelta(seconds=7)


@pytest.mark.parametrize("kind", ["unknown", "circular", "half", "nan", "bytes"])
async def test_no_detail_of_an_error_keeps_a_job_from_ending(executor: Executor, kind: str) -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    value = {"unknown": object(), "circular": circle, "half": "\ud800", "nan": float("nan")}

    @handles("odd")
    async def odd(ctx: Context) -> None:
        await ctx.progress("\ud800", 10, "\ud800")
        await ctx.log("\ud800")
        raise FileCorrupt("Half a character: \ud800", value=value.get(kind, b"\xff"), page=3)

    executor.registry.add(odd)
    failed = await run(executor, Job(job_type="odd"))
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (JobStatus.FAILED, "FILE_CORRUPT")
    assert failed.error.message == "Half a character: \ufffd"
    assert kind == "circular" or (failed.error.details or {})["page"] == 3
    assert failed.logs[0].message == failed.progress.step == "\ufffd"
