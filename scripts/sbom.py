"""Writes the SBOM of a release: every pinned package of the default installation and the extras,
and the third-party scripts of the dashboard, as CycloneDX JSON in dist/.

`make sbom` runs it. It reads files of the repository only, so the same commit has the same SBOM."""

import hashlib
import json
import re
import tomllib
import uuid
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lock import BASE, ROOT, Pin, read

SOURCE = ROOT / "src" / "secretary"
VENDOR = SOURCE / "dashboard" / "vendor"
LICENCES = ROOT / "docs" / "reference" / "licences.md"

Component = dict[str, Any]


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bom = sbom(project, version())
    path = ROOT / "dist" / f"secretary-{version()}.cdx.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(bom, indent=2) + "\n")
    print(f"{path.relative_to(ROOT)}: {len(bom['components'])} components")


def sbom(project: Mapping[str, Any], version: str) -> dict[str, Any]:
    extras = project["optional-dependencies"]
    pins = {pin.name: (pin, "optional") for extra in extras for pin in read(extra)}
    pins |= {pin.name: (pin, "required") for pin in read(BASE)}
    licences = dict(re.findall(r"(?m)^\| `([^`]+)` \| ([^|]+) \|", LICENCES.read_text()))
    components = [
        *(_package(pin, scope, licences) for _, (pin, scope) in sorted(pins.items())),
        *_scripts(licences),
    ]
    lines = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    direct = {re.split(r"[^\w.-]", line)[0].lower().replace(".", "-") for line in lines}
    root = _purl("secretary", version)
    body = {
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "secretary",
                "version": version,
                "purl": root,
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": components,
        "dependencies": list(
            _dependencies(root, direct, {name: pin for name, (pin, _) in pins.items()})
        ),
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        **body,
    }


def _package(pin: Pin, scope: str, licences: Mapping[str, str]) -> Component:
    purl = _purl(pin.name, pin.version)
    hashes = [
        {"alg": "SHA-256", "content": one.removeprefix("sha256:")} for one in sorted(pin.hashes)
    ]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": pin.name,
        "version": pin.version,
        "scope": scope,
        "purl": purl,
        **_licence(pin.name, licences),
        # One hash per file of the release: wheels of all platforms and the source.
        "externalReferences": [{"type": "distribution", "url": purl, "hashes": hashes}],
    }


def _scripts(licences: Mapping[str, str]) -> Iterator[Component]:
    """The third-party scripts in the dashboard."""
    for path in sorted(VENDOR.glob("*.js")):
        name, _, version = path.stem.partition("-")
        purl = f"pkg:npm/{name}@{version}"
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "scope": "required",
            "purl": purl,
            "hashes": [{"alg": "SHA-256", "content": sha256}],
            **_licence(name, licences),
        }


def _licence(name: str, licences: Mapping[str, str]) -> Component:
    """Packages that are never installed on Linux or macOS are not on the page of licences."""
    known = re.sub(r"\b(any-OSI|public-domain)\b", r"LicenseRef-\1", licences.get(name, ""))
    return {"licenses": [{"expression": known}]} if known else {}


def _dependencies(
    root: str, direct: Collection[str], pins: Mapping[str, Pin]
) -> Iterator[dict[str, Any]]:
    needs: dict[str, set[str]] = {name: set() for name in pins}
    for name, pin in pins.items():
        for parent in pin.via:
            if parent in needs:
                needs[parent].add(name)
    purls = {name: _purl(name, pin.version) for name, pin in pins.items()}
    yield {"ref": root, "dependsOn": sorted(purls[name] for name in direct)}
    for name in sorted(pins):
        yield {"ref": purls[name], "dependsOn": sorted(purls[one] for one in needs[name])}


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def version() -> str:
    found = re.search(r'__version__ = "(.+?)"', (SOURCE / "version.py").read_text())
    if found is None:
        raise ValueError("src/secretary/version.py has no version")
    return found[1]


if __name__ == "__main__":
    main()
