"""The reference documents everything that exists, and nothing else."""

import inspect
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from pydantic import BaseModel
from typer.core import TyperGroup, TyperOption

from secretary import config
from secretary.api import create_api, event_job, ingress
from secretary.api.middleware import JSON_HEADERS
from secretary.api.responses import CODES, LEGACY_PREFIX
from secretary.api.streams import NAMES, encode_event, job_event, job_event_id
from secretary.cli import app
from secretary.cli.output import ExitCode
from secretary.config import QuotaSettings, Settings
from secretary.core import errors
from secretary.core.errors import JobFailed
from secretary.core.job import Job, JobStatus, Progress
from secretary.handlers.parameters import LanguageParameters
from secretary.jobs.events import EVENT_FIELDS
from secretary.jobs.handler import Registry
from secretary.jobs.quotas import Quotas
from secretary.jobs.service import JobService
from secretary.observability.metrics import Metrics, ServiceStats
from secretary.storage.artifacts import JobFiles
from secretary.store import Usage

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def rows(page: str) -> dict[str, list[str]]:
    """The rows of all tables of a page, by the code in their first column."""
    text = (REFERENCE / page).read_text()
    table = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            table[cells[0].strip("` |")] = cells
    return table


def settings(model: type[BaseModel] = Settings, group: str = "") -> Iterator[tuple[str, object]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings(kind, f"{name}.")
        else:
            yield group + name, field.default


class TestSettings:
    def test_every_setting_is_documented(self) -> None:
        assert set(rows("settings.md")) == {name for name, _ in settings()}

    @pytest.mark.parametrize(("name", "default"), list(settings()))
    def test_the_line_shows_the_default(self, name: str, default: object) -> None:
        documented = rows("settings.md")[name][1]
        if default is None:
            assert documented == "none"
        else:
            assert yaml.safe_load(documented.strip("`")) == _plain(default)

    @pytest.mark.parametrize("name", config.PLAIN_VARIABLES)
    def test_every_variable_of_its_own_is_named(self, name: str) -> None:
        assert f"`{name}`" in (REFERENCE / "settings.md").read_text()

    def test_the_example_file_holds_all_defaults(self) -> None:
        file = ROOT / "config" / "config.example.yaml"
        assert config.load(file, environment={}) == Settings()
        values = yaml.safe_load(file.read_text())
        named = {f"{group}.{key}" for group, keys in values.items() if keys for key in keys}
        assert named | {"handlers"} == {name for name, _ in settings()}


def _plain(default: object) -> object:
    return list(default) if isinstance(default, tuple) else yaml.safe_load(str(default))


class TestStreams:
    def test_every_event_is_documented_with_its_phase(self) -> None:
        documented = {name: cells[1].strip("`") for name, cells in rows("streams.md").items()}
        assert dict(NAMES.values()).items() <= documented.items()

    def test_the_example_is_what_is_sent(self) -> None:
        text = (REFERENCE / "streams.md").read_text()
        match = re.search(r"(?s)```text\n(id: .*?)```", text)
        assert match is not None
        progress = Progress(percent=40, message="Page 4")
        job = Job(job_id="job-1", job_type="pdf", status=JobStatus.PROCESSING, progress=progress)
        event_id = match[1].splitlines()[0].removeprefix("id: ")
        assert encode_event(job_event(job), event_id).decode() == match[1] + "\n"
        assert len(event_id) == len(job_event_id(job, job_event(job)))

    def test_the_data_of_every_type_is_documented(self) -> None:
        text = (REFERENCE / "streams.md").read_text()
        for job_type, (always, sometimes) in EVENT_FIELDS.items():
            (line,) = re.findall(rf"(?m)^\|[^|]*`{job_type}`[^|]*\|(.*)\|$", text)
            assert re.findall("`(.*?)`", line) == [*always, *sometimes]


class TestErrors:
    def test_every_code_of_the_api_is_documented_with_its_status(self) -> None:
        text = (REFERENCE / "errors.md").read_text()
        for status, code in CODES.items():
            assert f"| `{code}` | {status} |" in text

    def test_every_code_of_a_job_is_documented(self) -> None:
        text = (REFERENCE / "errors.md").read_text().partition("## Of jobs")[2]
        documented = set(re.findall(r"(?m)^\| `([A-Z_]+)` \|", text))
        kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
        codes = {kind.code for kind in kinds if issubclass(kind, JobFailed)}
        assert documented == codes | {"CANCELLED"}

    def test_it_documents_which_codes_are_retried(self) -> None:
        text = (REFERENCE / "errors.md").read_text().partition("## Of jobs")[2]
        documented = dict(re.findall(r"(?m)^\| `([A-Z_]+)` \| (\w+) \|", text))
        for kind in vars(errors).values():
            if isinstance(kind, type) and issubclass(kind, JobFailed) and "code" in vars(kind):
                again = issubclass(kind, errors.ProcessDied) and "once"
                assert documented[kind.code] == (again or ("yes" if kind.retryable else "no"))


def commands(command: Any, name: str = "secretary") -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for part, inner in command.commands.items():
            yield from commands(inner, f"{name} {part}")
    else:
        yield name, command


COMMANDS = dict(commands(typer.main.get_command(app)))
SHARED = {"--help", "--json", "--config", "--data-dir", "--url", "--api-key"}


class TestCommandLine:
    def sections(self) -> dict[str, str]:
        text = (REFERENCE / "cli.md").read_text()
        parts = re.split(r"(?m)^## (.*)$", text)
        return dict(zip(parts[1::2], parts[2::2], strict=True))

    def test_every_command_has_its_heading(self) -> None:
        documented = {name for name in self.sections() if name.startswith("secretary ")}
        assert documented == set(COMMANDS)

    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_option_is_documented(self, name: str) -> None:
        options = {
            option
            for parameter in COMMANDS[name].params
            if isinstance(parameter, TyperOption)
            for option in parameter.opts
        }
        documented = set(re.findall(r"`(-[\w-]+)`(?=.* \|)", self.sections()[name]))
        assert documented - SHARED == options - SHARED

    def test_every_exit_code_is_documented(self) -> None:
        documented = {
            int(code) for code in re.findall(r"(?m)^\| (\d+) \|", self.sections()["Exit codes"])
        }
        assert documented == set(ExitCode)


class TestEventJob:
    def test_every_route_is_documented(self) -> None:
        documented = {name for name in rows("event-job.md") if "/api/" in name}
        actual = {f"{method} {path}" for method, path in routes() if path.startswith(LEGACY_PREFIX)}
        assert documented == actual

    def test_every_filter_is_documented(self) -> None:
        documented = {name for name in rows("event-job.md") if "/api/" not in name}
        lists = (event_job.list_event_jobs, event_job.list_event_batches)
        names = {name for each in lists for name in inspect.signature(each).parameters}
        assert documented == names - {"request", "user", "active"} | {"isActive"}


class TestIngress:
    def test_every_route_is_documented(self) -> None:
        documented = {name for name in rows("ingress.md") if "/api/" in name}
        actual = {f"POST /api{route.path}" for route in ingress.ROUTES}
        archive = "/api/jobs/{job_id}/download-archive"
        reading = {path for method, path in routes() if path.endswith("/{path}")} | {archive}
        actual |= {f"GET {path}" for path in reading if not path.startswith(LEGACY_PREFIX)}
        assert documented == actual

    @pytest.mark.parametrize("route", ingress.ROUTES, ids=lambda route: str(route.path))
    def test_the_line_shows_the_job_type(self, route: ingress.IngressRoute) -> None:
        assert rows("ingress.md")[f"POST /api{route.path}"][1].startswith(f"`{route.job_type}`")

    def test_every_common_field_is_documented(self) -> None:
        documented = {name for name in rows("ingress.md") if "/api/" not in name}
        of_the_call = ingress.CALL_FIELDS - {"job_id"} | {"file", "jobId"}
        assert documented == of_the_call | set(LanguageParameters.model_fields) - {"file_source"}


def routes() -> Iterator[tuple[str, str]]:
    job_service = JobService(None, Registry(), JobFiles(ROOT))  # type: ignore[arg-type]  # not used
    for path, methods in create_api(job_service).openapi()["paths"].items():
        for method in methods:
            yield method.upper(), path


class TestOperations:
    TEXT = (REFERENCE / "operations.md").read_text()
    METRICS = (REFERENCE / "metrics.md").read_text()

    async def test_every_metric_is_documented(self) -> None:
        quotas = Quotas(QuotaSettings(jobs_per_day=1))
        job_service = JobService(Empty(), Registry(), JobFiles(ROOT), quotas=quotas)  # type: ignore[arg-type]  # of numbers
        text = (await Metrics((), ServiceStats(job_service)).exposition()).decode()
        actual = {
            f"{name}_total" if kind == "counter" and not name.endswith("_total") else name
            for name, kind in re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text)
        }
        documented = {name for name in rows("metrics.md") if re.fullmatch(r"secretary_\w+", name)}
        assert documented == {name for name in actual if name.startswith("secretary_")}
        assert all(f"`{name}`" in self.METRICS for name in actual)

    def test_every_header_is_documented(self) -> None:
        for name, value in JSON_HEADERS:
            assert f"| `{name.decode().title()}` | `{value.decode()}`" in self.TEXT


class Empty:
    """An empty store."""

    async def counts(self) -> dict[str, Any]:
        return {}

    waiting_since = counts

    async def workers(self) -> list[Any]:
        return []

    async def next_event_due_at(self) -> None:
        return None

    async def usage(self, day: date) -> Usage:
        return Usage()


class TestLinks:
    @pytest.mark.parametrize(
        "page", [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")], ids=lambda page: page.name
    )
    def test_every_link_leads_somewhere(self, page: Path) -> None:
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        local = [link for link in links if "://" not in link]
        assert [link for link in local if not (page.parent / link).exists()] == []
