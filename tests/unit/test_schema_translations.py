"""The field descriptions of the schemas have German translations."""

import re
from collections.abc import Iterator
from pathlib import Path

from secretary.handlers import BUILTIN
from secretary.jobs.handler import Registry

DASHBOARD = Path(__file__).parents[2] / "src" / "secretary" / "dashboard"


def described() -> Iterator[str]:
    """The descriptions in the form of a job type, without the fields taken from the file."""
    own = re.search(r"HIDDEN_FIELDS = new Set\(\[(.*)\]\)", (DASHBOARD / "forms.js").read_text())
    assert own is not None
    hidden = set(re.findall(r'"(\w+)"', own[1]))
    registry = Registry(BUILTIN)
    for job_type in registry.job_types:
        for name, field in registry[job_type].parameters.model_fields.items():
            if field.description and name not in hidden:
                yield field.description


def test_every_hint_has_its_german() -> None:
    text = (DASHBOARD / "i18n_de.js").read_text()
    documented = set(re.findall(r'(?m)^  "([^"]+)": "[^"]+",$', text))
    assert set(described()) <= documented
