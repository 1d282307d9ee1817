"""What SQLite says went wrong, in a sentence an operator can act on."""

from pathlib import Path

import apsw

from ...errors import StoreUnavailable
from .connection import BUSY_SECONDS


def unavailable_error(error: Exception, path: Path) -> StoreUnavailable:
    match error:
        case apsw.FullError():
            text = "there is no space left on its disk"
        case apsw.ReadOnlyError():
            text = "it is read-only"
        case apsw.CantOpenError():
            text = "it cannot be opened or created (does its directory exist, may we write there?)"
        case apsw.NotADBError() | apsw.CorruptError():
            text = "it is not a usable SQLite database"
        case apsw.BusyError() | apsw.LockedError():
            text = f"another process has kept it locked for {BUSY_SECONDS:.0f} s"
        case _:
            text = str(error)
    return StoreUnavailable(f"The database {path.name} in {path.parent} cannot be used: {text}")
