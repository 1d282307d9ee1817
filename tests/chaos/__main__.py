"""Chaos tests of any length: `python -m tests.chaos --store sqlite --seconds 600 --seed 7`."""

import argparse
import logging
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import fault_plan
from .run import chaos

STORES = tuple(fault_plan.STORE_FAULTS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", choices=STORES, action="append", help="both, if none is named")
    parser.add_argument("--seconds", type=float, default=300, help="of faults, for each store")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--plan", action="store_true", help="only show which faults would come")
    parser.add_argument("--keep", type=Path, help="directory for logs, else they are removed")
    options = parser.parse_args()
    # Store errors in this process while the store is killed; those of the service are in its logs.
    logging.getLogger("secretary").addHandler(logging.NullHandler())
    broken = 0
    for store in options.store or STORES:
        print(f"{store}, seed {options.seed}, {options.seconds:g} s", flush=True)
        if options.plan:
            print(fault_plan.listed(fault_plan.faults(options.seed, options.seconds, store)))
            continue
        with _directory(options.keep) as directory:
            report = chaos(directory, store, seconds=options.seconds, seed=options.seed)
        print(report, flush=True)
        broken += len(report.broken)
    sys.exit(1 if broken else 0)


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix="chaos-", dir=keep))
        return
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        yield Path(directory)


if __name__ == "__main__":
    main()
