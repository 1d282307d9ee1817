"""A job's language models, over a real connection to a scripted endpoint."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from secretary.llm import Endpoints, Llm

from .llm_server import KEY, LlmServer, Reads, Reply, llm_server
from .service_fixture import ServiceClient, running_service


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


@asynccontextmanager
async def service_with_models(
    data_dir: Path,
    *replies: Reply | Reads,
    groups: dict[str, dict[str, Any]] | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[ServiceClient, LlmServer]]:
    """The service with a scripted endpoint for every purpose. `settings` are those of `llm`."""
    async with llm_server(*replies) as server:
        llm = {
            "base_url": server.web.url("/v1"),
            "api_key": KEY,
            "model": "scripted",
            "embedding_model": "embedder",
            "image_model": "painter",
        }
        async with running_service(data_dir, llm={**llm, **settings}, **groups or {}) as service:
            yield service, server
