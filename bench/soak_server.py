"""`secretary` with frequent maintenance, so that a run of minutes shows what otherwise takes days.

Expired jobs are removed every 10 seconds instead of every minute, the cache is cleaned every 15
seconds instead of every ten minutes, and entries may go after 45 seconds without use, not after an
hour.
"""

from datetime import timedelta

from secretary.storage import cache
from secretary.worker import maintenance

CLEANUP_EVERY = timedelta(seconds=10)
CACHE_CLEANUP_EVERY = timedelta(seconds=15)
IN_USE = timedelta(seconds=45)


def speed_up_maintenance() -> None:
    cache.IN_USE = IN_USE
    maintenance.IN_USE = IN_USE
    defaults = maintenance.MaintenanceOptions.__init__.__kwdefaults__
    assert defaults is not None
    defaults["tidy_every"] = CLEANUP_EVERY
    defaults["sweep_files_every"] = CACHE_CLEANUP_EVERY
    defaults["sweep_blob_store_every"] = CACHE_CLEANUP_EVERY


if __name__ == "__main__":
    speed_up_maintenance()
    from secretary.cli import main

    main()
