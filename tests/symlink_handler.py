"""A handler that leaves files behind, including symlinks that point elsewhere."""

import zipfile
from pathlib import Path
from typing import Any

from secretary import JobContext, Registry, handles
from secretary.jobs.handler import AnyParameters


@handles("filing")
async def filing(ctx: JobContext[AnyParameters]) -> dict[str, Any]:
    (ctx.directory / "a.txt").write_text("mine")
    (ctx.directory / "link.txt").symlink_to(ctx.job.parameters["secret"])
    (ctx.directory / "away").symlink_to(Path(ctx.job.parameters["secret"]).parent)
    with zipfile.ZipFile(ctx.directory / "all.zip", "w") as archive:
        archive.write(ctx.directory / "a.txt", "a.txt")
    return {"archive_filename": "all.zip"}


def register(registry: Registry) -> None:
    registry.add(filing)
