"""The files in deploy/ match the program: commands, settings, routes, metrics, codes."""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import typer
import yaml

from secretary import config
from secretary.api import create_api, create_probe
from secretary.cli import app
from secretary.config import Settings
from secretary.core import errors
from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.observability.metrics import Metrics, ServiceStats
from secretary.storage.artifacts import JobFiles
from secretary.store import Store
from secretary.worker.worker import SHUTDOWN_WRITE_TIMEOUT
from tests.api_server import serving

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GRACE = Settings().generic_worker.shutdown_grace_sec

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OURS = {name: one for name, one in COMPOSE["services"].items() if "secretary" in one["image"]}
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus/rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]


def manifests() -> Iterator[dict[str, Any]]:
    for path in sorted((DEPLOY / "kubernetes").rglob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for one in manifests():
        if one["kind"] == "Deployment":
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def dockerfile() -> list[tuple[str, str]]:
    text = (DEPLOY / "docker/Dockerfile").read_text()
    lines = re.sub(r"(?m)^\s*#.*\n", "", text).replace("\\\n", "").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def unit(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line[:1].isalpha()]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize(
    "path",
    [*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.json")],
    ids=lambda path: str(path.relative_to(DEPLOY)),
)
def test_every_file_can_be_read(path: Path) -> None:
    text = path.read_text()
    assert list(yaml.safe_load_all(text)) if path.suffix == ".yaml" else json.loads(text)


class TestCommands:
    """They are valid command lines, with existing job types."""

    COMMANDS = (
        *(pytest.param(one["command"], id=f"compose-{name}") for name, one in OURS.items()),
        *(pytest.param(one["containers"][0]["args"], id=f"pod-{name}") for name, one in pods()),
        *(
            pytest.param(shlex.split(unit(path)["ExecStart"])[1:], id=path.name)
            for path in UNITS
        ),
    )  # fmt: skip

    @pytest.mark.parametrize("command", COMMANDS)
    def test_it_is_a_command(self, command: list[str]) -> None:
        options = ["--types", "pdf,office", "--slots", "8", "--metrics-port", "9101"]
        given = [x for part in command for x in (options if part[0] == "$" else [part])]
        group: Any = typer.main.get_command(app)
        name, *rest = given
        context = group.commands[name].make_context(name, rest)
        types = context.params.get("types")
        assert set(types.split(",") if types else ()) <= set(Registry(BUILTIN).job_types)

    def test_the_example_in_the_unit_is_the_one_that_was_tried(self) -> None:
        text = (DEPLOY / "systemd/secretary-worker@.service").read_text()
        assert "WORKER_OPTIONS=--types pdf,office --slots 8 --metrics-port 9101" in text


class TestSettings:
    def test_every_variable_is_a_setting(self) -> None:
        for path in (path for path in DEPLOY.rglob("*") if path.is_file()):
            text = path.read_text()
            given = dict(
                re.findall(r"""(SECRETARY_\w+__\w+)(?:=|: |, value: )"?([^\s"}]+)""", text)
            )
            config.load(environment=given)
            named = set(re.findall(r"\bSECRETARY_\w+", text))
            assert named <= given.keys() | config.PLAIN_VARIABLES.keys()

    @pytest.mark.parametrize(("name", "pod"), list(pods()))
    def test_a_pod_gets_more_time_to_stop_than_its_jobs(
        self, name: str, pod: dict[str, Any]
    ) -> None:
        given = {one["name"]: one["value"] for one in pod["containers"][0].get("env", ())}
        grace = config.load(environment=given).generic_worker.shutdown_grace_sec
        grace = grace if name != "api" else 0
        assert pod["terminationGracePeriodSeconds"] > grace + SHUTDOWN_WRITE_TIMEOUT

    def test_so_does_a_container(self) -> None:
        for one in OURS.values():
            assert (
                float(one["stop_grace_period"].removesuffix("s")) > GRACE + SHUTDOWN_WRITE_TIMEOUT
            )

    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_so_does_a_unit(self, path: Path) -> None:
        assert float(unit(path)["TimeoutStopSec"]) > GRACE + SHUTDOWN_WRITE_TIMEOUT


class TestProbes:
    def test_the_routes_are_there(self) -> None:
        job_service = JobService(None, Registry(), JobFiles(ROOT))  # type: ignore[arg-type]  # not used
        metrics = Metrics((), ServiceStats(job_service))
        apps = {
            "http": create_api(job_service),
            "metrics": create_probe(job_service, metrics=metrics),
        }
        for _, pod in pods():
            (container,) = pod["containers"]
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                probe = container[kind]["httpGet"]
                paths = {getattr(route, "path", None) for route in apps[probe["port"]].routes}
                assert probe["path"] in paths

    async def test_the_health_check_distinguishes_alive_from_dead(
        self, job_service: JobService
    ) -> None:
        script = DEPLOY / "docker/healthcheck.py"
        async with serving(create_api(job_service)) as url:
            env = {"HEALTH_URL": f"{url}/api/health/live"}
            assert await ended(script, env) == 0
        assert await ended(script, env) == 1


async def ended(script: Path, environment: dict[str, str]) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", str(script), env=environment, stderr=subprocess.DEVNULL
    )
    return await asyncio.wait_for(process.wait(), 20)


@pytest.fixture
def job_service(store: Store, tmp_path: Path) -> JobService:
    return JobService(store, Registry(BUILTIN), JobFiles(tmp_path))


class TestImage:
    STEPS = dockerfile()

    def test_it_does_not_run_as_root(self) -> None:
        users = [rest for name, rest in self.STEPS if name == "USER"]
        assert users[-1] == "10001:10001"
        assert all(pod["securityContext"]["runAsUser"] == 10001 for _, pod in pods())

    def test_what_it_copies_is_there_and_not_ignored(self) -> None:
        ignored = (ROOT / ".dockerignore").read_text().splitlines()
        let_in = [line[1:] for line in ignored if line.startswith("!")]
        assert "*" in ignored
        for name, rest in self.STEPS:
            if name == "COPY" and not rest.startswith("--from"):
                *sources, _ = rest.split()
                for source in sources:
                    assert (ROOT / source).exists()
                    assert any(source == one or source.startswith(f"{one}/") for one in let_in)

    def test_its_extras_are_ours(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        (extras,) = (rest for name, rest in self.STEPS if rest.startswith("EXTRAS="))
        named = set(extras.removeprefix("EXTRAS=").split(","))
        assert named <= project["optional-dependencies"].keys()

    def test_it_installs_pinned_packages_only(self) -> None:
        installs = [
            command
            for _, rest in self.STEPS
            for command in rest.split("&&")
            if "pip install" in command or "pip wheel" in command
        ]
        (options,) = re.findall(r"set -- (--no-cache-dir[^&]+)", str(self.STEPS))
        assert "--require-hashes" in options and "--only-binary :all:" in options
        assert len(installs) == 4
        assert all('install "$@" ' in one or "--no-index" in one for one in installs)

    def test_its_base_has_a_version(self) -> None:
        bases = [rest for name, rest in self.STEPS if name == "ARG" and "PYTHON" in rest]
        assert bases == ["PYTHON=3.11-slim-bookworm"]


class TestCompose:
    def test_everything_named_is_declared(self) -> None:
        for one in COMPOSE["services"].values():
            assert set(one.get("depends_on", {})) <= COMPOSE["services"].keys()
            assert set(one["networks"]) <= COMPOSE["networks"].keys()
            assert set(one.get("secrets", ())) <= COMPOSE["secrets"].keys()
            for volume in one["volumes"]:
                source = volume.partition(":")[0]
                is_local = source.startswith("./") and (DEPLOY / source).exists()
                assert is_local or source in COMPOSE["volumes"]

    def test_no_port_is_open_to_other_machines(self) -> None:
        ports = [port for one in COMPOSE["services"].values() for port in one.get("ports", ())]
        assert ports and all(port.startswith("127.0.0.1:") for port in ports)

    def test_only_the_api_has_a_port(self) -> None:
        assert [name for name, one in COMPOSE["services"].items() if one.get("ports")] == ["api"]

    def test_the_database_and_grafana_require_passwords(self) -> None:
        """Compose refuses to start while a variable with `:?` is empty."""
        mongo, grafana = (COMPOSE["services"][name] for name in ("mongo", "grafana"))
        assert " --keyFile /run/mongo-key" in mongo["command"][0]
        passwords = (
            mongo["environment"]["MONGO_INITDB_ROOT_PASSWORD"],
            mongo["environment"]["MONGO_PASSWORD"],
            grafana["environment"]["GF_SECURITY_ADMIN_PASSWORD"],
            *(
                one["environment"]["MONGODB_URI"].partition("secretary:")[2]
                for one in OURS.values()
            ),
        )
        assert all(re.match(r"\$\{\w+_PASSWORD:\?", password) for password in passwords)

    def test_workers_cannot_reach_grafana(self) -> None:
        grafana = set(COMPOSE["services"]["grafana"]["networks"])
        assert all(grafana.isdisjoint(one["networks"]) for one in OURS.values())

    def test_every_image_can_be_pinned_by_its_digest(self, tmp_path: Path) -> None:
        docker = tmp_path / "docker"
        docker.write_text('#!/bin/sh\nfor image; do :; done; echo "sha256:digest-of-$image"\n')
        docker.chmod(0o700)
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(
            [DEPLOY / "image-digests"], env={"PATH": path}, capture_output=True, text=True
        )
        images = [x["image"] for n, x in COMPOSE["services"].items() if n not in OURS]
        images += {f"python:{one['build']['args']['PYTHON']}" for one in OURS.values()}
        pinned = dict(line.split("=") for line in done.stdout.splitlines())
        assert len(pinned) == len(images) == 4
        for image in images:
            name, _, variable = image.partition("${")
            assert pinned[variable.removesuffix(":-}")] == f"@sha256:digest-of-{name}"

    def test_the_base_image_is_that_of_the_dockerfile(self) -> None:
        (base,) = {one["build"]["args"]["PYTHON"] for one in OURS.values()}
        assert (
            f"ARG PYTHON={base.partition('$')[0]}\n" in (DEPLOY / "docker/Dockerfile").read_text()
        )

    def test_nobody_shares_a_data_directory(self) -> None:
        volumes = [one["volumes"][0] for one in OURS.values()]
        assert len(set(volumes)) == len(OURS) == 3

    def test_every_image_has_a_version(self) -> None:
        for name, one in COMPOSE["services"].items():
            assert name in OURS or re.search(r":v?\d", one["image"])


class TestKubernetes:
    def test_every_resource_that_is_named_is_there(self) -> None:
        for path in (DEPLOY / "kubernetes").rglob("kustomization.yaml"):
            for resource in yaml.safe_load(path.read_text())["resources"]:
                assert (path.parent / resource).exists()

    def test_selectors_find_their_pods(self) -> None:
        labels = {
            one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
            for one in manifests()
            if one["kind"] == "Deployment"
        }
        for one in manifests():
            if one["kind"] in ("Deployment", "PodDisruptionBudget"):
                assert one["spec"]["selector"]["matchLabels"] == labels[one["metadata"]["name"]]
            if one["kind"] == "ScaledObject":
                assert one["spec"]["scaleTargetRef"]["name"] in labels

    def test_pods_only_have_the_connections_that_are_listed(self) -> None:
        policies = {
            one["metadata"]["name"]: one["spec"]
            for one in manifests()
            if one["kind"] == "NetworkPolicy"
        }
        denied = policies.pop("default-deny")
        assert denied == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
        for spec in policies.values():
            assert "app.kubernetes.io/name" in spec["podSelector"]["matchLabels"]
            assert all(rule["from"] and rule["ports"] for rule in spec.get("ingress", ()))
        named = {
            port["name"]
            for _, pod in pods()
            for container in pod["containers"]
            for port in container["ports"]
        }
        assert {port["port"] for port in policies["metrics"]["ingress"][0]["ports"]} == named

    def test_pods_cannot_reach_private_networks(self) -> None:
        (outgoing,) = (
            one for one in manifests() if one.get("metadata", {}).get("name") == "outgoing"
        )
        blocks = [
            to["ipBlock"]
            for rule in outgoing["spec"]["egress"]
            for to in rule["to"]
            if "ipBlock" in to
        ]
        refused = [ip_network(one) for block in blocks for one in block["except"]]
        for address in ("10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
                        "fd00::1", "fe80::1"):  # fmt: skip
            assert any(ip_address(address) in network for network in refused)

    def test_the_example_of_a_secret_contains_none(self) -> None:
        example = yaml.safe_load((DEPLOY / "kubernetes/secret.example.yaml").read_text())
        values = example["stringData"]
        assert "<password>" in values.pop("MONGODB_URI")
        assert set(values.values()) == {""}

    def test_a_scaled_worker_has_the_slots_that_its_scaling_goes_by(self) -> None:
        arguments = {name: pod["containers"][0]["args"] for name, pod in pods()}
        for one in manifests():
            if one["kind"] == "ScaledObject":
                given = arguments[one["metadata"]["name"]]
                _, running = one["spec"]["triggers"]
                assert running["metadata"]["threshold"] == given[given.index("--slots") + 1]


class TestUnits:
    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_systemd_finds_no_fault(self, path: Path, tmp_path: Path) -> None:
        if shutil.which("systemd-analyze") is None:
            pytest.skip("systemd-analyze is not installed")
        text = path.read_text().replace("/opt/secretary/bin/secretary", "/bin/true")
        copy = tmp_path / path.name.replace("@", "@documents")
        copy.write_text(text)
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", copy],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")

    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_landlock_system_calls_are_allowed(self, path: Path) -> None:
        """If these system calls were blocked, Landlock would silently not be used."""
        allowed = unit(path)["SystemCallFilter"].split()
        assert {name for name in allowed if name.startswith("landlock")} == {
            "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self",
        }  # fmt: skip


def expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    dashboard = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$__rate_interval", "5m").replace("$job_type", ".*")
            yield f"{panel['title']} {target['refId']}", text
    for one in manifests():
        if one["kind"] == "ScaledObject":
            for n, trigger in enumerate(one["spec"]["triggers"]):
                yield f"{one['metadata']['name']} {n}", trigger["metadata"]["query"]


def selectors(expression: Any) -> Iterator[Any]:
    matched: list[Any] = []

    def look(node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            matched.append(node)
        return True

    promql_parser.walk(expression, look)
    yield from matched


#: Added by Prometheus itself.
ADDED = {"instance", "job"}


class TestExpressions:
    """Every metric exists in the service, with these labels."""

    @pytest.mark.parametrize(
        "text", [pytest.param(text, id=name) for name, text in expressions()]
    )  # fmt: skip
    async def test_it_asks_for_what_there_is(self, text: str, job_service: JobService) -> None:
        exported = await exported_series(job_service)
        for selector in selectors(promql_parser.parse(text)):
            labels = {matcher.name for matcher in selector.matchers.matchers}
            assert selector.name == "up" or selector.name in exported
            assert labels <= exported.get(selector.name, set()) | ADDED

    def test_something_was_looked_at(self) -> None:
        texts = [text for _, text in expressions()]
        names = {one.name for text in texts for one in selectors(promql_parser.parse(text))}
        assert len(names) > 15

    def test_every_code_is_one_of_ours(self) -> None:
        text = (DEPLOY / "prometheus/rules.yaml").read_text()
        kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
        codes = {kind.code for kind in kinds if issubclass(kind, errors.JobFailed)}
        named = {code for some in re.findall(r'code=~"([^"]+)"', text) for code in some.split("|")}
        assert named and named <= codes

    def test_every_alert_says_what_to_do(self) -> None:
        for rule in RULES:
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert rule["annotations"].keys() == {"summary", "description"}


async def exported_series(job_service: JobService) -> dict[str, set[str]]:
    """The names of all series, with their labels."""
    metrics = Metrics(job_service.registry.job_types, ServiceStats(job_service))
    text = (await metrics.exposition()).decode()
    pages = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    rows = re.findall(r"(?m)^\| `(secretary_\w+)` \|([^|]*)\|", pages)
    labels = {name: set(re.findall("`(.*?)`", row)) for name, row in rows}
    labels_by_metric: dict[str, set[str]] = {}
    for name, kind in re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text):
        full = f"{name}_total" if kind == "counter" and not name.endswith("_total") else name
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        for suffix in suffixes:
            more = {"le"} if suffix == "_bucket" else set()
            labels_by_metric[full + suffix] = labels.get(full, set()) | more
    return labels_by_metric
