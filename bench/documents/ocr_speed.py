"""Recognition of scans: ours through whole jobs beside bare Tesseract and OCRmyPDF, in turn."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import install
from arena import Failed

from .distance import character_error_rate
from .long_files import Scan, scan, variant
from .service import Service, serving

PROCESSES = (1, 2)
SCANS = (("en", 300), ("de", 200), ("en", 200), ("de", 300))
LIMIT_S = 600
TESSERACT, OCRMYPDF = "tesseract, one core", "OCRmyPDF, one core"
#: One thread each: they are compared core by core, and more threads make Tesseract slower.
ENV = os.environ | {"OMP_THREAD_LIMIT": "1"}


@dataclass
class Recognition:
    name: str
    #: Pages a second, by the name of the scan, a sample for each round.
    pages_per_s: dict[str, list[float]] = field(default_factory=dict)
    #: The pace over that of Tesseract in the same round, by the name of the scan.
    times_tesseract: dict[str, list[float]] = field(default_factory=dict)
    #: Of the last round, by the name of the scan.
    error_rates: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @contextmanager
    def noting_failure(self) -> Iterator[None]:
        try:
            yield
        except (Failed, subprocess.SubprocessError, OSError) as failure:
            self.failures.append(str(failure)[:300])


#: Reads a scan and says what it found and how many seconds that took.
Reader = Callable[[Scan, int], tuple[str, float]]


def our_name(processes: int) -> str:
    return f"secretary, {processes} process{'es' if processes > 1 else ''}"


def measure_ocr(
    work: Path, root: Path, *, pages: int, rounds: int, scans: Sequence[tuple[str, int]] = SCANS
) -> dict[str, Recognition]:
    made = [scan(root, language, dpi, pages) for language, dpi in scans]  # type: ignore[arg-type]
    with ExitStack() as stack:
        readers: dict[str, Reader] = {TESSERACT: _tesseract}
        for count in PROCESSES:
            service = stack.enter_context(serving(root, root, processes=count))
            readers[our_name(count)] = _ours(service)
        readers[OCRMYPDF] = _ocrmypdf(work, root)
        rows = {name: Recognition(name) for name in readers}
        if not install.has("tesseract", "tesseract-ocr"):
            raise Failed("there is no tesseract: apt-get install tesseract-ocr tesseract-ocr-deu")
        for row, reader in zip(rows.values(), readers.values(), strict=True):
            with row.noting_failure():
                reader(scan(root, "en", 100, 1), -1)  # a page to warm up with
        for number in range(rounds):
            for one in made:
                _measure(rows, readers, one, number)
    return rows


def _measure(
    rows: Mapping[str, Recognition], readers: Mapping[str, Reader], one: Scan, number: int
) -> None:
    paces: dict[str, float] = {}
    for name, reader in readers.items():
        row = rows[name]
        if row.failures:
            continue  # what has failed once would cost its time each round
        with row.noting_failure():
            found, seconds = reader(one, number)
            paces[name] = len(one.texts) / seconds
            row.pages_per_s.setdefault(one.name, []).append(paces[name])
            row.error_rates[one.name] = character_error_rate(" ".join(one.texts), found)
            if TESSERACT in paces:
                ratio = paces[name] / paces[TESSERACT]
                row.times_tesseract.setdefault(one.name, []).append(ratio)


def _tesseract(one: Scan, number: int) -> tuple[str, float]:
    texts, started = [], time.perf_counter()
    for picture in one.pictures:
        command = ["tesseract", str(picture), "-", "-l", one.tesseract_language]
        done = subprocess.run(command, env=ENV, capture_output=True, timeout=LIMIT_S)
        if done.returncode:
            raise Failed(done.stderr.decode("utf-8", "replace").strip()[-200:])
        texts.append(done.stdout.decode("utf-8", "replace"))
    return "\n".join(texts), time.perf_counter() - started


def _ours(service: Service) -> Reader:
    def read(one: Scan, number: int) -> tuple[str, float]:
        fresh = variant(one.pdf, one.pdf.parent, f"round {number}")
        options = {"extraction_method": "ocr", "ocr_language": one.tesseract_language}
        done = service.read(fresh, **options)
        if done.from_cache:
            raise Failed("the scan was known already")
        pages = done.job["results"]["metadata"]["text_contents"]
        return "\n".join(page["content"] for page in pages), done.client_s

    return read


def _ocrmypdf(work: Path, root: Path) -> Reader:
    def read(one: Scan, number: int) -> tuple[str, float]:
        python = install.environment(work / "reader-ocrmypdf", ["ocrmypdf"])
        sidecar, output = root / "sidecar.txt", root / "searchable.pdf"
        options = ["--jobs", "1", "--optimize", "0", "--output-type", "pdf", "--quiet"]
        options += ["--language", one.tesseract_language, "--sidecar", str(sidecar)]
        command = [str(python), "-m", "ocrmypdf", *options, str(one.pdf), str(output)]
        started = time.perf_counter()
        done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=LIMIT_S)
        seconds = time.perf_counter() - started
        if done.returncode:
            raise Failed((done.stderr.strip().splitlines() or ["it failed"])[-1])
        return sidecar.read_text(encoding="utf-8"), seconds

    return read
