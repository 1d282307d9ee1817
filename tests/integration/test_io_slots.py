"""Jobs that wait for the network do not queue behind long ones, on both stores."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from .. import backends
from ..polling import until
from ..service_fixture import ServiceClient, running_service

SLOTS = 2


def settings_for(store_url: str) -> dict[str, Any]:
    if backends.KIND or store_url.startswith("sqlite"):
        return {}
    return {"mongodb_uri": store_url, "files": "directory"}


async def states(service: ServiceClient, job_ids: list[str]) -> list[str]:
    return [(await service.job(job_id))["status"] for job_id in job_ids]


async def test_a_text_is_transformed_at_once_though_long_jobs_occupy_all_slots(
    store_url: str, tmp_path: Path
) -> None:
    limits = {"max_concurrent_workers": SLOTS, "poll_interval_sec": 60}
    storage = settings_for(store_url)
    async with running_service(tmp_path, storage=storage, generic_worker=limits) as service:
        long_jobs = [await service.submit("selftest", seconds=600) for _ in range(SLOTS + 2)]

        async def all_slots_are_busy() -> bool:
            return (await states(service, long_jobs)).count("processing") == SLOTS

        await until(all_slots_are_busy)

        async def transform(number: int) -> httpx.Response:
            body = {"text": f"Text {number}", "template_content": "# {{name}}\n\n{{text}}"}
            body["context"] = {"name": "Title"}  # type: ignore[assignment]  # JSON of any kind
            return await service.client.post("/api/transformer/template", json=body)

        responses = await asyncio.wait_for(asyncio.gather(*map(transform, range(20))), 30)
        assert [response.status_code for response in responses] == [200] * 20
        texts = [response.json()["data"]["text"] for response in responses]
        assert texts[3].startswith("# Title\n\nText 3")
        running = (await states(service, long_jobs)).count("processing")
        assert running == SLOTS
        for job_id in long_jobs:
            await service.client.post(f"/api/jobs/{job_id}/cancel")
