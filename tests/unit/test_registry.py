import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from secretary.core.errors import InvalidSettings, UnknownJobType
from secretary.jobs.handler import AnyParameters, Handler, JobContext, Registry, handles

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
