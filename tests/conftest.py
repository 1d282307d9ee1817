"""Real servers for all tests: SQLite in a temporary directory, MongoDB, a language model."""

import gc
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest

from secretary.store import Store, open_store

from . import backends
from .model_server import ModelMissing, ModelServer
from .mongod import Mongod, MongodMissing
from .requirements import missing
from .s3_server import S3Server

#: Property tests use the same values each time; `make fuzz` uses others, and more of them.
hypothesis.settings.register_profile("same each time", derandomize=True, deadline=None)
hypothesis.settings.load_profile("same each time")
FUZZ_FACTOR = int(os.environ.get("FUZZ_FACTOR", "0"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only here can settings of the tests themselves be changed, such as `max_examples`."""
    for item in items if FUZZ_FACTOR else ():
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        machine = getattr(item, "cls", None)
        if usual := getattr(test, USED_SETTINGS, None):
            setattr(test, USED_SETTINGS, _more(usual))
        elif isinstance(usual := getattr(machine, "settings", None), hypothesis.settings):
            setattr(machine, "settings", _more(usual))  # noqa: B010  (a class created by hypothesis)


USED_SETTINGS = "_hypothesis_internal_use_settings"


def _more(usual: hypothesis.settings) -> hypothesis.settings:
    most = usual.max_examples * FUZZ_FACTOR
    return hypothesis.settings(usual, max_examples=most, derandomize=False, deadline=None)


def pytest_collection_finish() -> None:
    """The thousands of collected tests stay in memory; exclude them from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def mongod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mongod]:
    """A MongoDB server for the tests, as a single-node replica set."""
    try:
        server = Mongod(tmp_path_factory.mktemp("mongod"))
        server.start()
    except MongodMissing as error:
        missing(str(error))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server for the tests, with its keys in the environment as programs expect them."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield server
    server.stop()


@pytest.fixture(scope="session", autouse=True)
def shared_backends(request: pytest.FixtureRequest) -> None:
    if backends.KIND:
        assert backends.KIND in ("gridfs", "s3"), "TEST_STORE is gridfs or s3"
        s3 = request.getfixturevalue("s3_server") if backends.KIND == "s3" else None
        backends.use(request.getfixturevalue("mongod"), s3)


@pytest.fixture(scope="session")
def model_server() -> Iterator[ModelServer]:
    """A small language model for the tests."""
    server = ModelServer()
    try:
        server.start()
    except ModelMissing as error:
        missing(str(error))
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "mongodb"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store, of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path}/jobs.db"
        return
    server: Mongod = request.getfixturevalue("mongod")
    name = server.borrow_database()
    yield server.url(name)
    server.return_database(name)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    store = open_store(store_url)
    await store.open()
    yield store
    await store.close()
