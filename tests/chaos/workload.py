"""The workload: jobs of every kind, each with what its results must contain."""

import io
import random
import re
import wave
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from secretary.media.speech.engines import SAMPLE_RATE

from ..minimal_files import pdf
from ..sample_documents import scan_of, words
from ..speech import real_voice, silence
from .external_services import ORGANISERS, SLIDES, THEME

MIXTURE = {
    "chaos": 7, "churn": 2, "rejected": 1, "pdf": 5, "scan": 2, "audio": 1, "transformer": 3,
    "session": 2,
}  # fmt: skip
#: A webhook path that never accepts an event.
BROKEN = "/broken"

Results = Mapping[str, Any]
#: Returns what is wrong with the results of a completed job, if anything.
Check = Callable[[Results], list[str]]


@dataclass(frozen=True)
class Order:
    """One request: a form if there is a `file`, otherwise JSON."""

    kind: str
    route: str
    document: dict[str, Any]
    file: tuple[str, bytes] | None = None
    check: Check = lambda results: []
    #: The webhook paths that must receive the final events of its jobs, one each.
    hooks: tuple[str | None, ...] = (None,)
    batch_hook: str | None = None


@dataclass
class Workload:
    """Draws requests one after the other; every kind occurs before any is repeated."""

    seed: int
    journal: str
    site: str
    #: Returns the webhook for a path on one of the receivers.
    hook: Callable[[str], dict[str, Any]]
    #: How many of each kind are in one round.
    mixture: Mapping[str, int] = field(default_factory=lambda: MIXTURE)
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.seed} orders")

    def orders(self) -> Iterator[Order]:
        number = 0
        while True:
            bag = [kind for kind, count in self.mixture.items() for _ in range(count)]
            for kind in self.dice.sample(bag, len(bag)):
                number += 1
                yield KINDS[kind](self, number)

    def path(self, name: str) -> str | None:
        """The webhook that half of the jobs have."""
        return f"/{name}" if self.dice.random() < 0.5 else None


def _synthetic(workload: Workload, number: int) -> Order:
    dice = workload.dice
    paths = [workload.path(f"{number}/{index}") for index in range(dice.randint(1, 5))]
    whole = workload.path(f"{number}/batch")
    jobs = [{"job_type": "chaos", "parameters": _parameters(workload)} for _ in paths]
    for job, path in zip(jobs, paths, strict=True):
        if path:
            job["webhook"] = workload.hook(path)
    document: dict[str, Any] = {"jobs": jobs, "user_id": dice.choice([None, "ann", "bob"])}
    if whole:  # it is also the webhook of jobs that have none
        document["webhook"] = workload.hook(whole)
    return Order("chaos", "/api/batches", document, hooks=tuple(paths), batch_hook=whole)


def _churn(workload: Workload, number: int) -> Order:
    """A batch that a client cancels and restarts over and over."""
    whole = f"/{number}/churn"
    parameters = _parameters(workload) | {"journal": f"{workload.journal}.churn", "fails": 0}
    jobs = [{"job_type": "chaos", "parameters": parameters} for _ in range(2)]
    document = {"jobs": jobs, "webhook": workload.hook(whole)}
    return Order("churn", "/api/batches", document, hooks=(None, None), batch_hook=whole)


def _rejected(workload: Workload, number: int) -> Order:
    """Jobs of a user whose receiver always fails, on the same host as those of the others."""
    hook = workload.hook(BROKEN) | {"events": ["completed", "error"]}
    parameters = _parameters(workload) | {"seconds": 0.0}
    jobs = [{"job_type": "chaos", "parameters": parameters, "webhook": hook} for _ in range(6)]
    document = {"jobs": jobs, "user_id": "eve"}
    return Order("rejected", "/api/batches", document, hooks=(BROKEN,) * 6)


def _parameters(workload: Workload) -> dict[str, Any]:
    dice = workload.dice
    return {
        "journal": workload.journal,
        "seconds": 12.0 if dice.random() < 0.03 else dice.choice([0.0, 0.1, 0.5, 1.0, 3.0]),
        "blocking": dice.random() < 0.3,
        "fails": 1 if dice.random() < 0.1 else 0,
    }


def _of_file(
    workload: Workload, number: int, kind: str, route: str, file: tuple[str, bytes], check: Check,
    **fields: Any,
) -> Order:  # fmt: skip
    path = workload.path(str(number))
    document = {**fields, **({"webhook": workload.hook(path)} if path else {})}
    return Order(kind, route, document, file=file, check=check, hooks=(path,))


def _pdf(workload: Workload, number: int) -> Order:
    expected = (f"Ledger {number - number % 2}", "and its second page")  # some are in the cache
    # A third bypasses the cache, which depends on the clock.
    fields = {"force_refresh": "true"} if workload.dice.random() < 0.3 else {}
    return _of_file(
        workload, number, "pdf", "/api/pdf/process", (f"{number}.pdf", pdf(*expected)),
        lambda results: _missing(results.get("extracted_text"), expected)
        + ([] if len(results["page_texts"]) == 2 else ["it has not two pages"]),
        **fields,
    )  # fmt: skip


def _scan(workload: Workload, number: int) -> Order:
    content = scan_of(words(text=f"{number} apples"))
    return _of_file(
        workload, number, "scan", "/api/pdf/process", (f"{number}.pdf", content),
        lambda results: _missing(results.get("extracted_text"), ["apples"]),
        extraction_method="ocr",
    )  # fmt: skip


def _audio(workload: Workload, number: int) -> Order:
    return _of_file(
        workload, number, "audio", "/api/audio/process", (f"{number}.wav", _spoken(number)),
        lambda results: _missing(
            (results.get("transcription") or {}).get("text"), ["tried", "again", "better"]
        ),
    )  # fmt: skip


def _transformer(workload: Workload, number: int) -> Order:
    parameters = {"text": f"The harvest of field {number}.", "instructions": "Tell it in short."}
    return _of_json(
        workload, number, "transformer", parameters,
        lambda results: _missing(results.get("text"), [f"In short: field {number}"]),
    )  # fmt: skip


def _session(workload: Workload, number: int) -> Order:
    parameters = {
        "event": "OwlConf 2031",
        "session": f"Forked communities {number}",
        "url": f"{workload.site}/event/{number}",
        "attachments_url": f"{workload.site}/slides.pdf",
        "subtitles_url": f"{workload.site}/talk.vtt",
        "filename": f"talk-{number}.md",
        "source_language": "en",
        "target_language": "en",
    }
    return _of_json(
        workload, number, "session", parameters,
        lambda results: _missing(results.get("markdown_content"), SLIDES)
        + _missing(results.get("web_text"), [THEME.format(number=number)])
        + _missing(results.get("video_transcript"), [ORGANISERS])
        + [f"without its {one['part']}" for one in results.get("missing") or []],
    )  # fmt: skip


def _of_json(
    workload: Workload, number: int, kind: str, parameters: dict[str, Any], check: Check
) -> Order:
    path = workload.path(str(number))
    document = {"job_type": kind, "parameters": parameters}
    document |= {"webhook": workload.hook(path)} if path else {}
    return Order(kind, "/api/jobs", document, check=check, hooks=(path,))


def _selftest(workload: Workload, number: int) -> Order:
    return _of_json(workload, number, "selftest", {"seconds": 0.05}, lambda results: [])


KINDS: Mapping[str, Callable[[Workload, int], Order]] = {
    "chaos": _synthetic,
    "churn": _churn,
    "rejected": _rejected,
    "pdf": _pdf,
    "scan": _scan,
    "audio": _audio,
    "transformer": _transformer,
    "session": _session,
    "selftest": _selftest,
}


def _missing(text: Any, expected: Any) -> list[str]:
    if not isinstance(text, str):
        return ["it has no text"]
    plain = " ".join(re.findall(r"\w+", text.lower()))
    return [
        f"{one!r} is not in its text"
        for one in expected
        if " ".join(re.findall(r"\w+", one.lower())) not in plain
    ]


@cache
def _voice() -> np.ndarray:
    return real_voice("beckett")


def _spoken(number: int) -> bytes:
    """The same words each time, but never the same file."""
    # Different files of the same length: the number is encoded in inaudible steps.
    mark = ((number >> np.arange(32)) & 1) / 16_000
    sound = np.concatenate([_voice(), silence(0.01), mark])
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setparams((1, 2, SAMPLE_RATE, len(sound), "NONE", "not compressed"))
        target.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()
