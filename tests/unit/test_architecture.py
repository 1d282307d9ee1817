"""Which module may import which. Change the tables deliberately, never just to make this pass."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "secretary"

#: Package -> the packages it may import. A dotted name has rules of its own, apart from the package
#: that contains it. Lazily named callables (`LazyCallable("web.page", ...)`) count as imports.
ALLOWED: dict[str, set[str]] = {
    "version": set(),
    "core": set(),
    "errors": {"core"},
    "network": {"core"},
    "config": {"core", "network"},
    "storage": {"core", "config", "network"},
    "store": {"core"},
    "store.sqlite": {"core", "store"},
    "store.mongo": {"core", "store"},
    "storage.gridfs": {"core", "storage", "store.mongo"},
    "documents": {"core", "storage"},
    "documents.office": {"core", "documents"},
    "documents.pdf.pdfium": {"core"},
    "documents.pdf.layout": {"core", "documents", "documents.pdf.pdfium"},
    "documents.pdf": {"core", "documents", "documents.pdf.layout", "documents.pdf.pdfium"},
    "media": {"core", "storage", "documents", "documents.office"},
    "media.ytdlp": {"core", "config", "media", "network", "storage"},
    "web": {"core", "documents.office"},
    "llm": {"config", "core", "documents", "media"},
    "llm.templates": {"core"},
    "worker.sandbox": {"core"},
    "jobs": {
        "core", "config", "llm", "llm.templates", "network", "storage", "store", "worker.sandbox",
        "web",
    },
    "handlers": {
        "core", "documents", "documents.office", "documents.pdf", "jobs", "llm", "llm.templates",
        "media", "media.ytdlp", "storage", "version", "web",
    },
    "observability": {
        "config", "core", "documents", "jobs", "llm", "llm.templates", "media", "media.ytdlp",
        "storage", "store", "version",
    },
    "worker": {
        "config", "core", "jobs", "llm", "llm.templates", "observability", "storage", "store",
        "version", "worker.sandbox",
    },
    "webhooks": {"core", "jobs", "network", "storage", "store", "version"},
    "api": {
        "core", "jobs", "llm.templates", "observability", "storage", "store", "version",
    },
    "client": {"core", "version"},
    "app": {
        "config", "core", "handlers", "jobs", "llm", "llm.templates", "network", "observability",
        "storage", "storage.gridfs", "store", "store.mongo", "webhooks", "worker", "worker.sandbox",
        "documents.pdf",
    },
    "serve": {
        "api", "app", "config", "core", "jobs", "observability", "store", "webhooks", "worker",
    },
    "migration": {"app", "config", "core", "jobs", "storage", "store", "store.mongo"},
    "cli": {
        "app", "client", "config", "core", "jobs", "llm.templates", "migration", "observability",
        "serve", "store", "version",
    },
    "__main__": {"cli"},
    "": {"core", "jobs", "version"},
}  # fmt: skip

#: Libraries that only one part may use, so that they can be replaced there.
OWNERS = {
    "apsw": {"store.sqlite"},
    "bson": {"store.mongo", "storage.gridfs", "migration"},
    "pymongo": {"store.mongo", "storage.gridfs", "migration"},
    "obstore": {"storage"},
    "fastapi": {"api"},
    "prometheus_client": {"observability"},
    "starlette": {"api"},
    "uvicorn": {"serve"},
    "httpcore": {"network"},
    "httpx2": set(),
    "opentelemetry": {"observability"},  # exports to the collector the operator configured
    "openai": {"llm"},  # connects to the endpoints the operator configured
    "jsonschema_rs": {"llm"},
    "lxml": {"documents.office", "web"},
    "markdown_it": {"documents"},
    "mcp": {"cli"},
    "trafilatura": {"web"},
    "typer": {"cli"},
    "rich": {"cli", "client"},
}

#: Ways to send requests without the address check.
HTTPX_WAYS_OUT = {
    "AsyncClient", "Client", "AsyncHTTPTransport", "HTTPTransport", "delete", "get", "head",
    "options", "patch", "post", "put", "request", "stream",
}  # fmt: skip
WAYS_OUT = {"aiohttp", "http.client", "requests", "urllib.request", "urllib3"}

VAGUE = {"base", "common", "factory", "helpers", "manager", "types", "utils"}


def part_of(module: str) -> str:
    """`store.sqlite.rows` -> `store.sqlite`, `api.jobs` -> `api`."""
    names = [part for part in ALLOWED if part and _belongs(module, part)]
    return max(names, key=len, default="")


def _belongs(module: str, part: str) -> bool:
    return module == part or module.startswith(f"{part}.")


def modules() -> Iterator[tuple[str, ast.Module, tuple[str, ...]]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        package = path.relative_to(PACKAGE).parent.parts
        name = ".".join((*package, path.stem)).removesuffix("__init__").strip(".")
        yield name, ast.parse(path.read_text()), package


def own_imports(tree: ast.Module, package: tuple[str, ...]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            for name in [node.module] if node.module else [alias.name for alias in node.names]:
                yield ".".join((*base, name or ""))
        match node:
            case ast.Call(func=ast.Name(id="LazyCallable"), args=[ast.Constant(value=module), _]):
                yield str(module)


def library_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def test_imports_go_one_way() -> None:
    wrong = [
        f"{name or 'the package'} imports {target}"
        for name, tree, package in modules()
        for target in own_imports(tree, package)
        if part_of(target) not in ALLOWED[part_of(name)] | {part_of(name)}
    ]
    assert not wrong


def test_the_table_leads_in_no_circle() -> None:
    TopologicalSorter(ALLOWED).prepare()


def test_no_import_goes_round_the_tables() -> None:
    assert not [name for name, tree, _ in modules() if "secretary" in library_imports(tree)]


def test_a_library_is_known_to_its_part_only() -> None:
    wrong = [
        f"{name} imports {library}"
        for name, tree, _ in modules()
        for library in library_imports(tree)
        if library in OWNERS and part_of(name) not in OWNERS[library]
    ]
    assert not wrong


def test_requests_go_out_through_the_network_only() -> None:
    """It blocks requests to private addresses; see docs/explanation/network.md."""
    wrong = [
        f"{name}: {target}"
        for name, tree, _ in modules()
        if name not in ("network.client", "client.connection")  # the latter runs on client machines
        for target in outgoing(tree)
    ]
    assert not wrong


def outgoing(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="httpx"), attr=name)):
                if name in HTTPX_WAYS_OUT:
                    yield f"httpx.{name}"
            case ast.ImportFrom(module=str(library), names=names, level=0):
                if library == "httpx":
                    yield from (alias.name for alias in names if alias.name in HTTPX_WAYS_OUT)
                elif library in WAYS_OUT or library.partition(".")[0] in WAYS_OUT:
                    yield library
                yield from (
                    x for x in (f"{library}.{alias.name}" for alias in names) if x in WAYS_OUT
                )
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in WAYS_OUT)


def test_a_command_starts_without_the_libraries_for_http() -> None:
    """Most commands make no requests and should not wait for these imports."""
    program = f"import sys; sys.path[:] = {sys.path!r}; import secretary.cli; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "secretary.cli" in result.stdout.split()
    assert not {"fastapi", "httpcore", "httpx", "uvicorn"} & set(result.stdout.split())


def test_the_client_comes_without_the_service() -> None:
    """It runs on machines that do not need the service's libraries."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; import secretary.client; print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(result.stdout.split())
    own = {name.split(".")[1] for name in loaded if name.startswith("secretary.")}
    assert own == {"client", "core", "version"}
    assert not {"fastapi", "starlette", "uvicorn", "apsw", "pymongo", "numpy"} & loaded


def test_the_table_names_no_part_that_is_gone() -> None:
    packages = {part_of(name) for name, _, _ in modules()}
    assert set(ALLOWED) == packages


@pytest.mark.parametrize("name", [name for name, _, _ in modules()])
def test_a_module_is_called_by_what_it_is(name: str) -> None:
    assert not VAGUE & set(name.split("."))


def test_a_module_says_first_what_its_duty_is() -> None:
    assert not [name for name, tree, _ in modules() if not ast.get_docstring(tree)]
