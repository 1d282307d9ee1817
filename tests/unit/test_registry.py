import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, ConfigDict

from secretary.core.errors import InvalidSettings, UnknownJobType
from secretary.handlers import BUILTIN
from secretary.jobs.handler import AnyParameters, Handler, JobContext, Registry, handles
from secretary.jobs.unknown_fields import unknown_field_warnings

MODULE = """
from secretary import handles

@handles("noted")
async def noted(ctx):
    return {}

async def old(job, repo, resource_calculator):
    pass

def register(registry):
    registry.add(noted)
    registry.register("old", old)

def broken(registry):
    raise RuntimeError("cannot")

not_a_function = 5
"""


class Parameters(BaseModel):
    url: str


@handles("pdf", Parameters, timeout=timedelta(minutes=5), max_attempts=2)
async def pdf(ctx: JobContext[Parameters]) -> None: ...


@handles("plain")
async def plain(ctx: JobContext[AnyParameters]) -> None: ...


def test_the_operators_time_limit_for_a_type_wins_over_the_handlers() -> None:
    registry = Registry([pdf, plain])
    default = timedelta(hours=1)
    registry.limit_time(default, {})
    assert registry["pdf"].timeout == timedelta(minutes=5)
    assert registry["plain"].timeout == default
    registry.limit_time(default, {"pdf": timedelta(seconds=5)})
    assert registry["pdf"].timeout == timedelta(seconds=5)


async def audio(job: Any, repo: Any, resource_calculator: Any) -> None: ...


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with handlers, as users would write it."""
    (tmp_path / "their_handlers.py").write_text(MODULE)
    (tmp_path / "their_mistake.py").write_text("import there_is_no_such_module\n")
    (tmp_path / "their_only_handlers.py").write_text(MODULE.partition("async def old")[0])
    (tmp_path / "their_typo.py").write_text("def register(registry:\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "their_handlers"
    sys.modules.pop("their_handlers", None)
    sys.modules.pop("their_only_handlers", None)


class TestBothForms:
    def test_a_decorated_function_serves_its_type(self) -> None:
        handler = Registry([pdf])["pdf"]
        assert handler.parameters is Parameters
        assert (handler.timeout, handler.max_attempts) == (timedelta(minutes=5), 2)

    def test_a_function_of_the_seeds_form_serves_the_type_it_is_registered_for(self) -> None:
        registry = Registry()
        registry.register("audio", audio, timeout=timedelta(hours=2))
        assert registry["audio"].parameters is AnyParameters
        assert registry["audio"].timeout == timedelta(hours=2)

    def test_the_later_registration_wins_and_is_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", logger="secretary.jobs.handler")
        registry = Registry([pdf])
        assert not caplog.messages
        registry.register("pdf", audio)
        assert registry["pdf"].parameters is AnyParameters
        registry.add(pdf)
        assert registry["pdf"].parameters is Parameters
        assert (
            caplog.messages
            == ["The job type 'pdf' is handled by another handler instead of the built-in handler"]
            * 2
        )

    def test_the_types_are_known(self) -> None:
        registry = Registry([pdf])
        assert registry.job_types == {"pdf"}
        assert "pdf" in registry
        assert "audio" not in registry

    def test_an_unknown_type_is_answered_with_the_list_of_types(self) -> None:
        with pytest.raises(UnknownJobType, match="'audio'; there are: pdf"):
            Registry([pdf])["audio"]


class TestLoading:
    def test_a_module_from_outside_registers_both_forms(self, module: str) -> None:
        registry = Registry()
        registry.load(f"{module}:register")
        assert registry.job_types == {"noted", "old"}

    def test_without_a_name_the_function_is_register(self, module: str) -> None:
        registry = Registry()
        registry.load(module)
        assert registry.job_types == {"noted", "old"}

    def test_a_module_without_register_gives_the_handlers_in_it(self, module: str) -> None:
        registry = Registry()
        registry.load("their_only_handlers")
        assert registry.job_types == {"noted"}
        assert registry["noted"].origin == "their_only_handlers"

    def test_a_module_from_outside_replaces_built_in_handlers(
        self, module: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", logger="secretary.jobs.handler")
        built_in: Handler[AnyParameters] = handles("noted")(plain.run)
        registry = Registry([built_in])
        registry.load(module)
        assert registry["noted"].origin == module
        assert caplog.messages == [
            "The job type 'noted' is handled by their_handlers instead of the built-in handler"
        ]

    def test_what_comes_from_outside_knows_where_it_came_from(self, module: str) -> None:
        registry = Registry([pdf])
        registry.load(f"{module}:register")
        assert registry["noted"].origin == f"{module}:register"
        assert registry["pdf"].origin is None

    @pytest.mark.parametrize(
        "origin",
        ["no_such_module:register", "their_handlers:missing", "their_mistake:register", "json", ""],
    )
    def test_what_cannot_be_loaded_is_named(self, module: str, origin: str) -> None:
        with pytest.raises(InvalidSettings, match=f"handlers: {origin!r} cannot be loaded"):
            Registry().load(origin)


def test_only_jobs_that_occupy_no_sandbox_process_have_slots_for_io(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = (
        "from secretary import handles\n"
        "@handles('free', isolated=False, io_bound=True)\nasync def free(ctx): ...\n"
        "@handles('boxed', io_bound=True)\nasync def boxed(ctx): ...\n"
    )
    (tmp_path / "io_handlers.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry(BUILTIN)
    registry.load("io_handlers")
    builtin = {"chat", "embedding", "imageanalyzer", "text2image", "track", "transformer"}
    assert registry.io_types == {*builtin, "free"}


class Strict(BaseModel):
    ignored_fields: ClassVar[frozenset[str]] = frozenset({"client_version"})

    size: int = 1


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    size: int = 1


async def _nothing(ctx: JobContext[Any]) -> None: ...


async def _legacy(job: Any, repo: Any, resource_calculator: Any) -> None: ...


def warned(*submissions: tuple[str, dict[str, Any]]) -> list[str]:
    registry = Registry([handles("strict", Strict)(_nothing), handles("open", Open)(_nothing)])
    registry.register("legacy", _legacy)
    return [warning.message for warning in unknown_field_warnings(registry, submissions)]


@pytest.mark.parametrize("job_type", ["open", "legacy", "unheard of"])
def test_a_job_type_that_accepts_everything_knows_every_field(job_type: str) -> None:
    assert warned((job_type, {"siez": 2})) == []


def test_ignored_fields_null_and_known_ones_are_not_unknown() -> None:
    parameters: dict[str, Any] = {
        "clientVersion": 1,
        "client_version": 2,
        "size": 3,
        "siez": None,
        "extra": {},
    }
    assert warned(("strict", parameters)) == []


def test_a_field_that_only_other_routes_know_has_a_hint_where_there_is_one() -> None:
    assert warned(("strict", {"callback_url": "https://example.org", "wait_ms": 5})) == [
        'Unknown field "callback_url"; did you mean "webhook"?',
        'Unknown field "wait_ms"',
    ]


def test_each_field_of_a_batch_is_named_once() -> None:
    jobs = [("strict", {"siez": number}) for number in range(10_000)]
    assert warned(*jobs) == ['Unknown field "siez"; did you mean "size"?']
