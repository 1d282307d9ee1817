import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from secretary.config import (
    AccessSettings,
    ApiKeySettings,
    DocumentSettings,
    MediaSettings,
    NetworkSettings,
)
from secretary.core.job import Job, utc_now
from secretary.jobs.handler import Registry
from secretary.llm import LlmOptions, Model, Provider
from secretary.llm.templates import Library
from secretary.observability import doctor
from secretary.observability.doctor import Finding, Verdict
from secretary.store import Store
from tests.contract.factories import worker

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
SQLITE = {
    "kind": "sqlite",
    "path": "/data/secretary.db",
    "sqlite_version": "3.54.1",
    "schema_version": 1,
    "journal_mode": "wal",
    "quick_check": "ok",
    "bytes": 4096,
}
MONGODB = {"kind": "mongodb", "version": "7.0.1", "topology": "replica set"}


def by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings}


class TestSqlite:
    @pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2"])
    def test_a_library_with_the_wal_reset_bug_is_a_problem(self, version: str) -> None:
        finding = doctor.check_sqlite(version)
        assert finding.verdict == "problem"
        assert finding.remedy is not None

    @pytest.mark.parametrize("version", ["3.6.23", "3.51.3", "3.54.1", "4.0.0"])
    def test_other_libraries_are_well(self, version: str) -> None:
        assert doctor.check_sqlite(version).verdict == "ok"

    @pytest.mark.parametrize(
        ("change", "verdict"),
        [
            ({}, "ok"),
            ({"quick_check": "row 3 missing from index"}, "problem"),
            ({"journal_mode": "delete"}, "warning"),
        ],
    )
    def test_the_database_is_judged(self, change: dict[str, Any], verdict: str) -> None:
        findings = by_subject(list(doctor.check_store_facts({**SQLITE, **change})))
        assert findings["store"].verdict == verdict


class TestMongodb:
    def test_a_replica_set_is_well(self) -> None:
        (finding,) = doctor.check_store_facts(MONGODB)
        assert finding.verdict == "ok"
        assert "7.0.1" in finding.fact

    def test_a_standalone_server_is_a_warning(self) -> None:
        (finding,) = doctor.check_store_facts({**MONGODB, "topology": "standalone"})
        assert finding.verdict == "warning"


class TestDirectory:
    @pytest.mark.parametrize(
        ("free", "verdict"),
        [(99_000_000, "problem"), (999_000_000, "warning"), (1_000_000_000, "ok")],
    )
    def test_space_is_judged(self, free: int, verdict: str) -> None:
        assert doctor.check_disk_space(free).verdict == verdict

    def test_a_directory_that_is_not_there_yet_is_no_problem(self, tmp_path: Path) -> None:
        (finding,) = doctor.check_directory(tmp_path / "new", embedded_store=True)
        assert finding.verdict == "info"
        assert not (tmp_path / "new").exists()

    def test_a_file_in_its_place_is_a_problem(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        (finding,) = doctor.check_directory(tmp_path / "file", embedded_store=True)
        assert finding.verdict == "problem"

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_directory_that_cannot_be_written_is_a_problem(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        findings = by_subject(list(doctor.check_directory(tmp_path, embedded_store=True)))
        assert findings["data"].verdict == "problem"

    @pytest.mark.parametrize(
        ("kind", "embedded", "verdict"),
        [("ext4", True, "ok"), ("nfs4", True, "problem"), ("cifs", False, "info")],
    )
    def test_a_network_is_no_place_for_sqlite(
        self, kind: str, embedded: bool, verdict: str
    ) -> None:
        assert doctor.check_file_system(kind, embedded_store=embedded).verdict == verdict

    def test_the_innermost_mount_counts(self, tmp_path: Path) -> None:
        mounts = tmp_path / "mounts"
        inner = str(tmp_path / "the data").replace(" ", "\\040")
        mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {inner} nfs4 rw 0 0\n")
        assert doctor.file_system(tmp_path / "the data" / "deep", mounts) == "nfs4"
        assert doctor.file_system(tmp_path, mounts) == "ext4"

    def test_without_a_list_of_mounts_nothing_is_reported(self, tmp_path: Path) -> None:
        assert doctor.file_system(tmp_path, tmp_path / "none") is None


class TestClock:
    def test_a_clock_that_agrees_is_well(self) -> None:
        finding = doctor.check_clock(NOW, server=NOW + timedelta(seconds=1), newest=NOW)
        assert finding.verdict == "ok"

    @pytest.mark.parametrize("seconds", [-60, 60])
    def test_a_clock_off_the_servers_is_a_warning(self, seconds: int) -> None:
        server = NOW + timedelta(seconds=seconds)
        assert doctor.check_clock(NOW, server=server).verdict == "warning"

    def test_a_clock_behind_the_newest_job_is_a_warning(self) -> None:
        assert doctor.check_clock(NOW, newest=NOW + timedelta(minutes=1)).verdict == "warning"
        assert doctor.check_clock(NOW, newest=NOW - timedelta(days=9)).verdict == "ok"

    def test_a_clock_that_was_never_set_is_a_problem(self) -> None:
        assert doctor.check_clock(datetime(1970, 1, 2, tzinfo=UTC)).verdict == "problem"


class TestWork:
    async def test_an_idle_store_is_well(self, store: Store) -> None:
        findings = by_subject(await doctor.check_store(store))
        assert findings["jobs"].fact == "0 waiting, 0 running"
        assert findings["workers"].verdict == "info"
        assert findings["store"].verdict == "ok"

    async def test_jobs_that_wait_for_nobody_are_a_warning(self, store: Store) -> None:
        await store.add([Job(created_at=utc_now() - timedelta(hours=3))])
        findings = by_subject(await doctor.check_store(store))
        assert findings["workers"].verdict == "warning"
        assert findings["jobs"].fact == "1 waiting, 0 running, the oldest for over an hour"

    async def test_a_job_that_shall_wait_has_not_waited_long(self, store: Store) -> None:
        then, later = utc_now() - timedelta(hours=3), utc_now() + timedelta(hours=3)
        await store.add([Job(created_at=then, run_at=later)])
        findings = by_subject(await doctor.check_store(store))
        assert findings["jobs"].fact == "1 waiting, 0 running"

    async def test_a_worker_that_is_alive_is_named(self, store: Store) -> None:
        await store.register_worker(worker("worker-7"), timedelta(seconds=60))
        findings = by_subject(await doctor.check_store(store))
        assert findings["workers"].verdict == "ok"
        assert "worker-7 (3 slots" in findings["workers"].fact


class TestRest:
    @pytest.mark.parametrize(
        ("mode", "missing", "verdict"),
        [("auto", [], "ok"), ("auto", ["files"], "warning"), ("off", [], "warning")],
    )
    def test_processes_that_are_not_confined_are_a_warning(
        self, mode: str, missing: list[str], verdict: str
    ) -> None:
        finding = doctor.check_fence(mode, missing)
        assert finding.verdict == verdict
        assert all(name in finding.fact for name in missing)

    def test_missing_engines_are_only_mentioned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        finding = doctor.check_office()
        assert finding.verdict is Verdict.INFO
        assert finding.fact == "not found; needed to convert office documents to PDF"

    def test_ffmpeg_and_the_languages_of_the_speech_engine_are_listed(self) -> None:
        ffmpeg, speech = doctor.check_media(MediaSettings())
        assert (ffmpeg.verdict, speech.verdict) == (Verdict.OK, Verdict.OK)
        assert speech.fact == "whisper for en"

    def test_missing_engines_for_media_are_warnings(self, tmp_path: Path) -> None:
        options = MediaSettings(ffmpeg="/no/ffmpeg", speech_model_directory=str(tmp_path))
        findings = list(doctor.check_media(options))
        assert [finding.verdict for finding in findings] == [Verdict.WARNING, Verdict.WARNING]

    def test_ytdlp_is_listed(self) -> None:
        finding = doctor.check_sites()
        assert (finding.verdict, finding.fact.endswith("yt_dlp")) == (Verdict.OK, True)

    def test_the_languages_of_the_ocr_engine_are_listed(self) -> None:
        finding = doctor.check_ocr(DocumentSettings())
        assert finding.verdict is Verdict.OK
        assert "deu" in finding.fact
        assert "eng" in finding.fact

    def test_a_missing_ocr_engine_is_a_warning(self) -> None:
        settings = DocumentSettings.model_construct(ocr_engine="goose-quill")
        assert doctor.check_ocr(settings).verdict is Verdict.WARNING

    def test_missing_models_are_only_mentioned(self) -> None:
        findings = list(doctor.check_models(LlmOptions()))
        assert [each.subject for each in findings] == [
            "chat",
            "vision",
            "transcription",
            "ocr",
            "embedding",
            "image",
        ]
        assert {each.verdict for each in findings} == {Verdict.INFO}
        for number, setting in ((2, "transcription"), (3, "ocr"), (4, "embedding"), (5, "image")):
            assert f"no model configured (llm.{setting}_model)" in findings[number].fact

    def test_templates_are_counted_and_faulty_ones_named(self, tmp_path: Path) -> None:
        assert doctor.check_templates(Library()).verdict is Verdict.OK
        (tmp_path / "Mine.md").write_text("{{a|A}}")
        assert doctor.check_templates(Library(tmp_path)).fact.endswith(", 1 of your own")
        (tmp_path / "Torn.md").write_text("{{a")
        finding = doctor.check_templates(Library(tmp_path))
        assert (finding.verdict, finding.fact) == (Verdict.WARNING, "invalid: Torn")
        missing = doctor.check_templates(Library(tmp_path / "no"))
        assert missing.verdict is Verdict.PROBLEM

    def test_a_model_is_listed_without_its_key(self) -> None:
        provider = Provider(setting="llm", base_url="https://llm.example/v1", api_key="SECRET")
        model = Model(provider=provider, name="seer")
        _, finding, *_ = doctor.check_models(LlmOptions({"vision": model}))
        assert finding.verdict == "ok"
        assert finding.fact == "seer at https://llm.example/v1, with a key"

    def test_the_development_switch_of_the_network_is_a_warning(self) -> None:
        assert list(doctor.check_network(NetworkSettings())) == []
        (finding,) = doctor.check_network(NetworkSettings(allow_private=True))
        assert (finding.subject, finding.verdict) == ("network", "warning")
        assert "network.allow_private is on" in finding.fact

    def test_a_short_key_and_one_that_expires_soon_are_warnings_without_the_key(self) -> None:
        now, long = utc_now(), "0123456789abcdef"
        later, soon = now + timedelta(days=15), now + timedelta(days=13)
        keys = (
            long,
            "short-key:a-user-with-a-long-name",
            ApiKeySettings(key=f"{long}-later", expires_at=later),
            ApiKeySettings(key=f"{long}-soon", expires_at=soon),
            ApiKeySettings(key=f"{long}-gone", expires_at=now),
        )
        findings = list(doctor.check_keys(AccessSettings(api_keys=keys), now))
        assert {finding.verdict for finding in findings} == {Verdict.WARNING}
        assert [finding.fact.partition(" at ")[0] for finding in findings] == [
            "Key 2 in access.api_keys has only 9 characters",
            "Key 4 in access.api_keys expires",
            "Key 5 in access.api_keys expired",
        ]

    def test_handlers_are_listed(self) -> None:
        async def audio(job: Any, repo: Any, resources: Any) -> None: ...

        registry = Registry()
        registry.register("audio", audio)
        assert doctor.check_handlers(registry).fact == "audio"

    def test_the_worst_verdict_counts(self) -> None:
        findings = [Finding("a", verdict, "") for verdict in (Verdict.OK, Verdict.WARNING)]
        assert doctor.worst(findings) == "warning"
