"""Mixed jobs at full load for a long time: does anything grow that should not?

    make soak ARGS="[--minutes 30] [--store mongodb] [--svg FILE] [--json FILE] [--seed 1]"

`secretary serve` reads PDFs and scans, hears recordings, asks a scripted language model, writes
sessions and tells webhooks, while memory, open files, threads, directories and sizes are measured
every few seconds. Jobs are kept for a minute and the cache is small, so that what is removed can be
seen to go. The trend of the last two thirds of each series has to be flat (`soaking/trend.py`);
else the exit code is 1 and the series is named.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from servers import Server, running
from soaking import verdict
from soaking.load import Load
from soaking.samples import Sample, look

from tests.chaos.orders import Desk
from tests.chaos.receivers import SECRET, Mailbox
from tests.chaos.site import Elsewhere, elsewhere
from tests.mongod import Mongod

ROOT = Path(__file__).resolve().parent.parent
HASTY = ROOT / "bench" / "soaking" / "hasty.py"
COMMAND = (sys.executable, str(HASTY), "serve", "--port", "0", "--data-dir", "data")
#: A minute, in days.
KEPT = str(1 / 24 / 60)
SETTINGS = {
    "SECRETARY_NETWORK__ALLOW_HOSTS": "127.0.0.1",
    "SECRETARY_RETENTION__COMPLETED_DAYS": KEPT,
    "SECRETARY_RETENTION__FAILED_DAYS": KEPT,
    "SECRETARY_RETENTION__CANCELLED_DAYS": KEPT,
    "SECRETARY_CACHE__MAX_MB": "0",
    "SECRETARY_LOGGING__LEVEL": "warning",
}
MIXTURE = {"selftest": 8, "pdf": 8, "scan": 3, "audio": 1, "transformer": 5, "session": 3}


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    load, samples = asyncio.run(_soak(options))
    at = [sample.at for sample in samples]
    series = verdict.columns(samples)
    judged = verdict.verdicts(at, series)
    ended = ", ".join(f"{kind} {count:,}" for kind, count in sorted(load.ended.items()))
    print(verdict.table(series, judged))
    print(f"\n{sum(load.ended.values()):,} jobs in {options.minutes:g} minutes: {ended}")
    title = f"{options.minutes:g} minutes of mixed jobs ({options.store})"
    options.svg.parent.mkdir(parents=True, exist_ok=True)
    options.svg.write_text(verdict.drawing(title, at, series))
    print(f"Drawn in {options.svg}")
    if options.json:
        rows = [{"at": sample.at, **sample.values} for sample in samples]
        options.json.write_text(json.dumps({"ended": load.ended, "samples": rows}))
    faults = [*load.wrong[:20], *verdict.growing(judged)]
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    print("Flat." if not faults else f"{len(faults)} faults.")
    return 1 if faults else 0


async def _soak(options: argparse.Namespace) -> tuple[Load, list[Sample]]:
    mailbox = Mailbox()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        try:
            async with elsewhere() as other:
                with _store(options.store, Path(name)) as store:
                    (temporary := Path(name, "temporary")).mkdir()
                    settings = SETTINGS | other.model | store | {"TMPDIR": str(temporary)}
                    with running(Server("soak", COMMAND, settings=settings), Path(name)) as service:
                        data, uri = service.directory / "data", store.get("MONGODB_URI")
                        see = partial(look, service.tree.leader, data, temporary, mongodb=uri)
                        return await _measured(options, see, service.url, other, mailbox)
        finally:
            mailbox.close()


async def _measured(
    options: argparse.Namespace,
    see: Callable[[], dict[str, float]],
    url: str,
    other: Elsewhere,
    mailbox: Mailbox,
) -> tuple[Load, list[Sample]]:
    def hook(path: str) -> dict[str, Any]:
        return {"url": mailbox.url(path), "secret": SECRET, "events": ["completed", "error"]}

    job_service = Desk(options.seed, "", other.site, hook, MIXTURE)  # none of them keeps a journal
    load, samples, began = Load(), list[Sample](), time.monotonic()
    deadline = began + options.minutes * 60
    working = asyncio.create_task(load.run(url, job_service, deadline))
    every = max(1.0, min(5.0, options.minutes / 6))
    while time.monotonic() < deadline and not working.done():
        await asyncio.sleep(every)
        values = await asyncio.to_thread(see)
        samples.append(Sample(time.monotonic() - began, values))
        mailbox.told.clear()
    await working
    return load, samples


@contextmanager
def _store(kind: str, directory: Path) -> Iterator[dict[str, str]]:
    if kind == "sqlite":
        yield {}
        return
    (directory / "mongod").mkdir()
    server = Mongod(directory / "mongod")
    server.start()
    try:
        yield {"MONGODB_URI": server.url("soak")}
    finally:
        server.stop()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--store", choices=("sqlite", "mongodb"), default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", type=Path, default=ROOT / ".bench" / "soak.svg")
    parser.add_argument("--json", type=Path, help="file for every sample")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
