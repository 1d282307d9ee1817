"""xberg, asked for Markdown, without its cache."""

import asyncio
import inspect
import json
from importlib.metadata import version

import xberg  # type: ignore[import-not-found]  # only in its own environment

VERSION = version("xberg")
CONFIG = {"output_format": "markdown", "use_cache": False}


def read(path: str) -> str:
    return asyncio.run(_read(path))


async def _read(path: str) -> str:
    given = xberg.ExtractInput.from_json(json.dumps({"kind": "uri", "uri": path}))
    answer = xberg.extract(given, xberg.ExtractionConfig.from_json(json.dumps(CONFIG)))
    result = await answer if inspect.isawaitable(answer) else answer
    return "\n\n".join(document.content for document in result.results)
