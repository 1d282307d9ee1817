"""Lists the licences of all packages that Secretary depends on, and rejects licences that are not
allowed.

`make licences` runs it. With --check it writes nothing and fails if the page is out of date. Names
and licences are compared, not versions, which differ between machines."""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "licences.md"
START = "<!-- written by scripts/write_licences.py -->\n"
END = "<!-- up to here -->"

#: They only require that their text is included.
PERMISSIVE = frozenset(
    {
        "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC",
        "LicenseRef-any-OSI", "LicenseRef-public-domain", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0",
        "Unlicense", "Zlib",
    }
)  # fmt: skip
#: They only require the source of changes to their own files, and we change none.
BY_FILE = frozenset({"MPL-1.1", "MPL-2.0"})

#: What packages without an SPDX expression declare.
SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD, Public Domain": "BSD-2-Clause AND LicenseRef-public-domain",
    "BSD-3-Clause, Apache-2.0, dependency licenses": "BSD-3-Clause AND Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "The BSD 2-Clause License": "BSD-2-Clause",
    "any-OSI": "LicenseRef-any-OSI",
}

Licences = dict[str, str]


def main() -> None:
    found = licences_by_group()
    licences = {name: text for group in found.values() for name, text in group.items()}
    if refused := [f"{name}: {text}" for name, text in licences.items() if not is_allowed(text)]:
        sys.exit("Not allowed by scripts/write_licences.py:\n" + "\n".join(refused))
    before = PAGE.read_text()
    if "--check" not in sys.argv:
        PAGE.write_text(written(before, found))
    elif missing := [row for row in rows(found) if row not in before.splitlines()]:
        sys.exit("Not in docs/reference/licences.md; run `make licences`:\n" + "\n".join(missing))


def licences_by_group() -> dict[str, Licences]:
    """The licences of the default installation, and of the packages that each extra adds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    default = licences(project["dependencies"])
    extras: Mapping[str, list[str]] = project["optional-dependencies"]
    more = {name: licences(needed) for name, needed in extras.items()}
    added = {
        name: {one: text for one, text in all_.items() if one not in default}
        for name, all_ in more.items()
    }
    return {"": default, **added}


def licences(requirements: Iterable[str]) -> Licences:
    """The licences of these packages and of all their dependencies, as installed."""
    found: dict[tuple[str, str], Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            key = (canonicalize_name(wanted.name), extra)
            if key in found:
                continue
            try:
                found[key] = distribution(wanted.name)
            except PackageNotFoundError:
                sys.exit(f"{wanted.name} is not installed, so its licence cannot be read")
            waiting += _needed(found[key], extra)
    return {name: licence(found[name, extra]) for name, extra in sorted(found)}


def _needed(package: Distribution, extra: str) -> Iterator[Requirement]:
    for text in package.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def licence(package: Distribution) -> str:
    """The licence as an SPDX expression, whatever form the package uses."""
    about = package.metadata
    written = [
        text for name in ("License-Expression", "License") for text in about.get_all(name, [])
    ]
    expression: str = next((line for text in written for line in text.strip().splitlines()[:1]), "")
    if not expression:
        kinds = about.get_all("Classifier", [])
        names = [one.rpartition(" :: ")[2] for one in kinds if one.startswith("License ::")]
        expression = " AND ".join(SPELLINGS.get(name, name) for name in names)
    return SPELLINGS.get(expression, expression) or "unknown"


def is_allowed(expression: str) -> bool:
    """Whether the expression is allowed: one operand of `OR` is enough, `AND` needs all."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression)

    def either() -> bool:
        found = both()
        while tokens[:1] == ["OR"]:
            del tokens[0]
            found = both() or found
        return found

    def both() -> bool:
        found = one()
        while tokens[:1] == ["AND"]:
            del tokens[0]
            found = one() and found
        return found

    def one() -> bool:
        token = tokens.pop(0) if tokens else ""
        if token != "(":
            return token in PERMISSIVE | BY_FILE
        found = either()
        return found and bool(tokens) and tokens.pop(0) == ")"

    return either() and not tokens


def written(page: str, found: Mapping[str, Licences]) -> str:
    start, end = page.index(START) + len(START), page.index(END)
    return page[:start] + "\n" + "\n".join(tables(found)) + "\n" + page[end:]


def tables(found: Mapping[str, Licences]) -> Iterator[str]:
    for group, all_ in found.items():
        yield f"### Extra `{group}`\n" if group else "### Default installation\n"
        yield "| package | licence |\n|---|---|"
        yield "\n".join(rows({group: all_})) + "\n"


def rows(found: Mapping[str, Licences]) -> list[str]:
    return [
        f"| `{name}` | {text.replace('LicenseRef-', '')} |"
        for all_ in found.values()
        for name, text in all_.items()
    ]


if __name__ == "__main__":
    main()
