"""Long lists, page by page."""

from collections.abc import AsyncGenerator
from typing import Any

from .connection import Connection


async def paged(
    connection: Connection, what: str, **query: Any
) -> AsyncGenerator[dict[str, Any], None]:
    """All that fit; the next page is asked for when the one before is used up."""
    cursor: str | None = None
    while True:
        page = await connection.get(f"/api/{what}", cursor=cursor, **query)
        for document in page[what]:
            yield document
        cursor = page["next_cursor"]
        if cursor is None:
            return
