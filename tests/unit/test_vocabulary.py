"""Private terms of the first version do not come back: engineers could not guess their meaning."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEARCHED = {
    "src": (".py", ".js", ".html", ".css"),
    "tests": (".py",),
    "bench": (".py", ".md"),
    "scripts": (".py",),
    "docs": (".md",),
}
#: Each stands for an established word: blob store, middleware, queue, peer, heartbeat, ...
FORBIDDEN = (
    "asides", "colleague", "colleagues", "depot", "desk", "doorway", "ears", "employ", "enlist",
    "hand_in", "handed in", "hands in", "heed", "lane", "lanes", "likeness", "obituary", "premises",
    "shelf", "shipment", "stillness", "taker", "told", "upkeep", "vitals", "wish", "wishes",
    "workroom", "workshop",
)  # fmt: skip
#: Field and index names in existing databases, and sentences in sample documents.
EXCEPTIONS = {
    "src/secretary/store/mongo": {"lane", "told"},
    "src/secretary/store/sqlite": {"told"},
    "src/secretary/migration/legacy.py": {"told"},
    "tests/unit/test_legacy_documents.py": {"told"},
    "tests/unit/test_pdf_manuals.py": {"told"},
    "tests/unit/test_vocabulary.py": set(FORBIDDEN),
}
WORD = re.compile(r"[A-Z]?[a-z]+(?:_in| in)?")


def words(line: str) -> Iterator[str]:
    """The words of a line; identifiers are split at underscores and capitals."""
    for match in WORD.finditer(line):
        word = match[0].lower()
        yield from {word, word.removesuffix("_in").removesuffix(" in")}


def allowed_in(path: str) -> set[str]:
    return set().union(*(words for start, words in EXCEPTIONS.items() if path.startswith(start)))


def test_private_words_do_not_come_back() -> None:
    found = []
    for folder, suffixes in SEARCHED.items():
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix not in suffixes or "/vendor/" in name:
                continue
            forbidden = set(FORBIDDEN) - allowed_in(name)
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found += [f"{name}:{number}: {word}" for word in words(line) if word in forbidden]
    assert found == []


def test_every_exception_is_needed() -> None:
    for start, exceptions in EXCEPTIONS.items():
        files = [path for path in [ROOT / start, *(ROOT / start).rglob("*.py")] if path.is_file()]
        text = {word for path in files for word in words(path.read_text())}
        assert exceptions <= text, start
