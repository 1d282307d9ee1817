"""`secretary` with an upkeep that is in a hurry, so that a run of minutes shows what takes days.

What is too old is removed every ten seconds instead of every minute, the cache is looked through
every 15 seconds instead of every ten minutes, and an entry that was not used for 45 seconds, not
for an hour, may go. Nothing else differs from the program; the rest is settings.
"""

from datetime import timedelta

from secretary.storage import cache
from secretary.worker import maintenance
from secretary.worker import maintenance as depot_upkeep

TIDY_EVERY = timedelta(seconds=10)
LOOK_THROUGH_EVERY = timedelta(seconds=15)
IN_USE = timedelta(seconds=45)


def hurry() -> None:
    cache.IN_USE = IN_USE
    depot_upkeep.IN_USE = IN_USE
    defaults = maintenance.MaintenanceOptions.__init__.__kwdefaults__
    assert defaults is not None
    defaults["tidy_every"] = TIDY_EVERY
    defaults["sweep_files_every"] = LOOK_THROUGH_EVERY
    defaults["sweep_blob_store_every"] = LOOK_THROUGH_EVERY


if __name__ == "__main__":
    hurry()
    from secretary.cli import main

    main()
