"""Which module may import which. Change the tables on purpose, never to make this pass."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "secretary"

#: Part -> the parts it may import. A part is a module, or a package with all that is in it; one
#: with a dot differs from the package it is in.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "parameters": set(),
    "secret_parameters": set(),
    "job": {"secret_parameters"},
    "logs": set(),
    "trace": set(),
    "resources": set(),
    "remote": set(),
    "processes": set(),
    "machine": {"processes"},
    "network": {
        "network.addresses", "network.allow_list", "network.resolver", "network.transport",
        "errors",
    },
    "network.addresses": set(),
    "network.allow_list": {"network.addresses"},
    "network.resolver": set(),
    "network.transport": {"errors"},
    "file_names": set(),
    "download_limits": set(),
    "retry_after": set(),
    "fetch": {"network", "download_limits", "file_names", "retry_after", "errors"},
    "config": {"network.allow_list", "media_options", "errors"},
    "installation": set(),
    "disclosure": {"config"},
    "lanes": set(),
    "depot": set(),
    "depot.placing": set(),
    "depot.upkeep": {"depot"},
    "depot.s3": {"depot", "depot.placing", "lanes", "errors"},
    "depot.directory": {"depot", "depot.placing", "errors"},
    "shipping": {"cache", "depot", "errors"},
    "store": {"job", "depot"},
    "store.policy": {"store"},
    "store.sqlite": {
        "store", "store.policy", "job", "secret_parameters", "errors", "machine",
    },
    "store.mongo": {
        "store", "store.policy", "depot", "depot.placing", "job", "secret_parameters", "errors",
    },
    "sound_frames": set(),
    "file_kinds": {"sound_frames"},
    "uploads": {"depot", "errors", "file_kinds", "file_names"},
    "cache": set(),
    "json_bytes": set(),
    "templates": {"engines", "errors"},
    "document_options": set(),
    "media_options": set(),
    "archive": set(),
    "files": {
        "file_names", "uploads", "archive", "cache", "depot", "shipping", "job", "parameters",
        "errors",
    },
    "sources": {"uploads", "download_limits", "fetch", "network", "file_names", "errors"},
    "sites": {
        "network", "fetch", "sources", "download_limits", "processors", "errors",
        "sites.fence",
    },
    "sites.fence": set(),
    "handler": {
        "engines.llm", "sources", "cache", "document_options", "media_options", "job", "errors",
        "parameters", "resources", "templates", "shipping",
    },
    "seed": {"handler", "job", "parameters", "errors", "resources"},
    "registry": {"handler", "seed", "errors"},
    "engines": {"errors"},
    "engines.llm": {"engines", "errors", "resources", "retry_after"},
    "processors": {"engines", "file_kinds", "sound_frames", "json_bytes", "processes", "errors"},
    "handlers": {
        "handler", "remote", "sources", "sites", "cache", "processors", "engines", "file_kinds",
        "file_names", "job", "errors", "version", "templates", "json_bytes", "lanes",
    },
    "sandbox": {"processes", "resources", "errors", "sandbox.frames"},
    "sandbox.frames": set(),
    "sandbox.meter": set(),
    "sandbox.inside": {"processes", "errors", "sandbox.frames", "sandbox.meter"},
    "isolation": {
        "sources", "cache", "document_options", "media_options", "sandbox", "sandbox.inside",
        "registry", "handler",
        "engines.llm", "resources", "job", "templates",
    },
    "observer": {"store", "job"},
    "colleagues": {"store", "job", "machine"},
    "worker_document": {"colleagues", "job", "store"},
    "spans": {"store", "job", "version"},
    "vitals": {"desk", "store", "job", "errors"},
    "metrics": {"vitals", "store", "job", "errors"},
    "reporting": {"store", "job", "errors", "observer"},
    "executor": {
        "store", "registry", "handler", "sandbox", "isolation", "files", "sources", "resources",
        "document_options", "media_options", "engines.llm", "templates", "reporting",
        "job", "errors", "logs", "observer", "trace",
    },
    "worker": {"executor", "colleagues", "store", "job", "errors", "machine", "version"},
    "upkeep": {
        "store", "files", "depot", "depot.upkeep", "job", "errors", "machine", "observer",
    },
    "signatures": set(),
    "webhooks": {
        "store", "files", "network", "event_data", "retry_after", "signatures", "job", "errors",
        "version",
    },
    "webhook_rules": {"job", "errors"},
    "submission": {"webhook_rules", "registry", "job", "parameters", "errors", "trace"},
    "reruns": {"submission", "job", "parameters", "secret_parameters"},
    "desk": {
        "reruns", "submission", "webhook_rules", "registry", "store", "files", "uploads", "job",
        "errors", "colleagues",
    },
    "bulk": {"desk", "store", "job", "errors"},
    "event_data": {"job"},
    "events": {"store", "job", "errors"},
    "schedules": {
        "submission", "remote", "sandbox", "fetch", "network", "download_limits", "errors",
    },
    "doctor": {
        "document_options", "media_options", "engines", "engines.llm", "processors", "sites",
        "templates", "colleagues", "depot", "registry", "store", "job", "errors", "version",
    },
    "api": {
        "desk", "bulk", "installation", "submission", "handler", "registry", "store", "files",
        "uploads", "file_kinds",
        "file_names", "schedules",
        "events", "event_data", "json_bytes", "job", "errors", "version", "trace", "vitals",
        "metrics", "templates", "worker_document", "colleagues",
    },
    "server": {"errors"},
    "client": {"signatures", "version", "retry_after"},
    "mcp_tools": {"client", "version"},
    "app": {
        "desk", "disclosure", "installation",
        "doctor", "worker", "upkeep", "executor", "sandbox", "registry", "handlers",
        "store", "files", "uploads", "sources", "config", "network", "download_limits", "webhooks",
        "job", "schedules", "templates",
        "errors", "metrics", "observer", "vitals", "cache", "document_options", "media_options",
        "engines.llm", "spans", "depot", "depot.s3",
    },
    "running": {
        "app", "api", "server", "events", "webhooks", "store", "config", "errors", "observer",
        "spans",
    },
    "file_copy": {"depot", "depot.directory", "lanes"},
    "store_copy": {"colleagues", "store", "errors"},
    "legacy": {"store", "depot", "file_names", "webhook_rules", "job", "parameters"},
    "home": {"app", "config", "store", "depot", "depot.directory", "errors"},
    "workshop": {"app", "running", "desk", "store", "config", "errors"},
    "cli": {
        "app", "running", "workshop", "config", "desk", "doctor", "submission", "store",
        "files", "file_kinds", "schedules", "templates", "job", "errors", "logs", "version",
        "client", "mcp_tools", "worker_document", "home", "store_copy", "file_copy", "legacy",
    },
    "__main__": {"cli"},
    "": {"handler", "registry", "job", "errors", "version"},
}  # fmt: skip

#: Libraries that only one part may know, so that they can be replaced there.
OWNERS = {
    "apsw": {"store.sqlite"},
    "bson": {"store.mongo"},
    "pymongo": {"store.mongo"},
    "obstore": {"depot.s3"},
    "fastapi": {"api"},
    "prometheus_client": {"metrics"},
    "starlette": {"api"},
    "uvicorn": {"server"},
    "httpcore": {"network.transport"},
    "httpx2": set(),
    "opentelemetry": {"spans"},  # to a collector of the operator's own choice
    "openai": {"engines.llm"},  # to endpoints of the operator's own choice
    "jsonschema_rs": {"engines.llm"},
    "lxml": {"processors"},
    "markdown_it": {"processors"},
    "mcp": {"mcp_tools"},
    "trafilatura": {"processors"},
    "typer": {"cli"},
    "rich": {"cli", "client"},
}

#: How requests could leave without being checked.
HTTPX_WAYS_OUT = {
    "AsyncClient", "Client", "AsyncHTTPTransport", "HTTPTransport", "delete", "get", "head",
    "options", "patch", "post", "put", "request", "stream",
}  # fmt: skip
WAYS_OUT = {"aiohttp", "http.client", "requests", "urllib.request", "urllib3"}

VAGUE = {"base", "common", "factory", "helpers", "manager", "models", "service", "types", "utils"}


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
    """It alone keeps them away from private addresses; see docs/explanation/network.md."""
    wrong = [
        f"{name}: {found}"
        for name, tree, _ in modules()
        if name not in ("network.client", "client.connection")  # the latter runs elsewhere
        for found in outgoing(tree)
    ]
    assert not wrong


def outgoing(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="httpx"), attr=name)):
                if name in HTTPX_WAYS_OUT:
                    yield f"httpx.{name}"
            case ast.ImportFrom(module=str(library), names=names):
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
    """Most commands make no requests, and should not wait for what could."""
    program = f"import sys; sys.path[:] = {sys.path!r}; import secretary.cli; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "secretary.cli" in result.stdout.split()
    assert not {"fastapi", "httpcore", "httpx", "uvicorn"} & set(result.stdout.split())


def test_the_client_comes_without_the_service() -> None:
    """It runs on machines that have no use for its libraries."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; import secretary.client; print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(result.stdout.split())
    own = {name.split(".")[1] for name in loaded if name.startswith("secretary.")}
    assert own == {"client", "errors", "retry_after", "signatures", "version"}
    assert not {"fastapi", "starlette", "uvicorn", "apsw", "pymongo", "numpy"} & loaded


def test_the_table_names_no_part_that_is_gone() -> None:
    there = {part_of(name) for name, _, _ in modules()}
    assert set(ALLOWED) == there


@pytest.mark.parametrize("name", [name for name, _, _ in modules()])
def test_a_module_is_called_by_what_it_is(name: str) -> None:
    assert not VAGUE & set(name.split("."))


def test_a_module_says_first_what_its_duty_is() -> None:
    assert not [name for name, tree, _ in modules() if not ast.get_docstring(tree)]
