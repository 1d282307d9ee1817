"""A job's language models, over a real connection to a scripted endpoint."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from secretary.llm import Endpoints, Llm

from .llm_server import LlmServer, Reads, Reply, llm_server


@asynccontextmanager
async def scripted_llm(
    *replies: Reply | Reads, **options: Any
) -> AsyncIterator[tuple[LlmServer, Llm]]:
    async with llm_server(*replies) as server:
        endpoints = Endpoints(server.options(**options))
        try:
            yield server, Llm(endpoints)
        finally:
            await endpoints.close()
