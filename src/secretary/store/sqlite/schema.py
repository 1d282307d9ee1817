"""The tables of the SQLite store, made in a new file and known again in an old one."""

from importlib.resources import files
from pathlib import Path

from ...errors import StoreUnavailable
from .connection import connect

SCHEMA_VERSION = 1
APPLICATION_ID = 0x5EC2E7A2  # tells a database of ours from any other


def prepare(path: Path) -> None:
    """Make the tables of a new database; refuse one that is not ours or that is from the future."""
    db = connect(path)
    try:
        db.execute("BEGIN IMMEDIATE")
        version = db.pragma("user_version")
        known = db.pragma("application_id")
        if version > SCHEMA_VERSION:
            raise StoreUnavailable(
                f"The database {path.name} in {path.parent} was written by a newer version of "
                f"Secretary (schema {version}; this version knows {SCHEMA_VERSION}). "
                "Install that version, or use another data directory."
            )
        if version == 0:
            if known not in (0, APPLICATION_ID) or db.execute("SELECT 1 FROM sqlite_schema").get:
                raise StoreUnavailable(
                    f"The file {path.name} in {path.parent} is a database of another program"
                )
            db.execute((files(__package__) / "schema.sql").read_text())
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute((files(__package__) / "later.sql").read_text())
        db.execute("COMMIT")
    finally:
        db.close()
