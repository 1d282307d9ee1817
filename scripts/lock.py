"""Pins every package with its hashes, in requirements/: one file for the default installation, and
one per extra and dependency group with the packages that it adds.

`make lock` runs it after a change of pyproject.toml and keeps all other versions; with --upgrade it
takes the newest versions. The files hold for Linux and macOS and every supported Python version,
and name no package index."""

import argparse
import re
import subprocess
import tempfile
import tomllib
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
#: The default installation. Other files leave out what it contains.
BASE = "base"
#: What builds Secretary itself.
BUILD = "build"
#: Installed without their dependencies.
WITHOUT_DEPENDENCIES = frozenset({"model"})


@dataclass(frozen=True, slots=True)
class Pin:
    """One version of a package, with the hashes of all its files."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    #: The packages that need it, of all files.
    via: tuple[str, ...]

    def __str__(self) -> str:
        marker = f" ; {self.marker}" if self.marker else ""
        lines = [f"{self.name}=={self.version}{marker}", *(f"--hash={one}" for one in self.hashes)]
        via = f"    # via {', '.join(self.via)}\n" if self.via else ""
        return " \\\n    ".join(lines) + "\n" + via


def main() -> None:
    parser = argparse.ArgumentParser(description="Pin all packages in requirements/.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    parser.add_argument("--upgrade-package", action="append", default=[], metavar="NAME")
    given = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    options = [f"--upgrade-package={name}" for name in given.upgrade_package]
    with tempfile.TemporaryDirectory() as directory:
        uv = install_uv(Path(directory))
        before = () if given.upgrade else tuple(locked())
        files = resolve(uv, project, before, options, Path(directory))
    for path in REQUIREMENTS.glob("*.txt"):
        if path.stem not in files:
            path.unlink()
    for name, pins in files.items():
        text = f"# Written by `make lock`: {describe(name, project)}\n" + "".join(map(str, pins))
        (REQUIREMENTS / f"{name}.txt").write_text(text)
    changes = sorted(changed(before, [pin for pins in files.values() for pin in pins]))
    print("\n".join(changes) or "No version has changed.")


def install_uv(directory: Path) -> Path:
    """Install the pinned resolver into an environment of its own."""
    venv.create(directory, with_pip=True)
    subprocess.run(  # nosec B603  # no shell and no outside input
        [directory / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check",
         "--require-hashes", "--requirement", REQUIREMENTS / "lock.txt"],
        check=True,
    )  # fmt: skip
    return directory / "bin" / "uv"


def resolve(
    uv: Path,
    project: Mapping[str, Any],
    before: Sequence[Pin],
    options: Sequence[str],
    directory: Path,
) -> dict[str, list[Pin]]:
    """Resolve all requirements together, so that the files agree, and then each file on its own."""
    wanted = requirements(project)
    python = project["project"]["requires-python"].removeprefix(">=")
    command = [str(uv), "pip", "compile", "--quiet", "--no-config", "--universal",
               f"--python-version={python}", "--fork-strategy=fewest", "--generate-hashes",
               "--no-header", "--no-emit-index-url", "--annotation-style=line"]  # fmt: skip

    def compile_(name: str, lines: Iterable[str], more: Sequence[str]) -> list[Pin]:
        source, result = directory / f"{name}.in", directory / f"{name}.txt"
        source.write_text("".join(f"{line}\n" for line in lines))
        files = [str(source), f"--output-file={result}"]
        subprocess.run(  # nosec B603  # no shell and no outside input
            [*command, *files, *more], check=True, stdout=subprocess.DEVNULL
        )
        return list(parse(result.read_text()))

    # uv keeps the versions that it finds in the file it writes to.
    everything = directory / "everything.txt"
    everything.write_text("".join({pin.name: str(pin) for pin in before}.values()))
    together = {name: lines for name, lines in wanted.items() if name not in WITHOUT_DEPENDENCIES}
    all_pins = compile_("everything", (x for lines in together.values() for x in lines), options)
    via = {pin.name: pin.via for pin in all_pins}

    base: list[Pin] = []
    files: dict[str, list[Pin]] = {}
    for name, lines in wanted.items():
        if name in WITHOUT_DEPENDENCIES:
            files[name] = compile_(name, lines, ["--no-deps"])
            continue
        pins = compile_(name, lines, [f"--constraint={everything}"])
        if name == BASE:
            base = pins
        known = {(pin.name, pin.version, pin.marker) for pin in base if name not in (BASE, BUILD)}
        files[name] = [
            replace(pin, via=via[pin.name])
            for pin in pins
            if (pin.name, pin.version, pin.marker) not in known
        ]
    return files


def requirements(project: Mapping[str, Any]) -> dict[str, list[str]]:
    """The requirements of each file, by its name; those of the default installation first. An
    extra or group includes the default installation, with whose versions it must agree."""
    about = project["project"]
    default: list[str] = about["dependencies"]
    alone = {BUILD, "lock", *WITHOUT_DEPENDENCIES}
    more = {
        BUILD: project["build-system"]["requires"],
        **about["optional-dependencies"],
        **project["dependency-groups"],
    }
    return {BASE: default} | {
        name: [*lines, *(() if name in alone else default)] for name, lines in more.items()
    }


def describe(name: str, project: Mapping[str, Any]) -> str:
    if name == BASE:
        return "the default installation."
    if name == BUILD:
        return "what builds Secretary itself."
    is_extra = name in project["project"]["optional-dependencies"]
    return f"what the {'extra' if is_extra else 'group'} `{name}` adds."


def locked() -> Iterator[Pin]:
    for path in sorted(REQUIREMENTS.glob("*.txt")):
        yield from read(path.stem)


def read(name: str) -> Iterator[Pin]:
    """The pins of one file."""
    return parse((REQUIREMENTS / f"{name}.txt").read_text())


def parse(text: str) -> Iterator[Pin]:
    """Read a requirements file in the form in which uv and this script write it."""
    for block in re.split(r"\n(?=[a-z0-9])", "\n" + re.sub(r"(?m)^#.*\n", "", text)):
        if not block.strip():
            continue
        matched = re.match(r"\s*([a-z0-9.-]+)==([^\s;]+)(?: ; ([^\\\n]+?))?(?: \\)?\n", block)
        if matched is None:
            raise ValueError(f"Not a pinned requirement: {block.strip().splitlines()[0]}")
        name, version, marker = matched.groups(default="")
        via = (name for line in re.findall(r"# via (.*)", block) for name in line.split(", "))
        hashes = re.findall(r"--hash=(\S+)", block)
        yield Pin(name, version, marker, tuple(hashes), tuple(x for x in via if _is_package(x)))


def _is_package(name: str) -> bool:
    """Whether it is a package, and not one of the files given to uv."""
    return re.fullmatch(r"[a-z0-9.-]+", name) is not None


def changed(before: Iterable[Pin], after: Iterable[Pin]) -> Iterator[str]:
    old, new = ({pin.name: pin.version for pin in pins} for pins in (before, after))
    for name in old.keys() | new.keys():
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name, 'none')} → {new.get(name, 'none')}"


if __name__ == "__main__":
    main()
