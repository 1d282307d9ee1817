"""Keeps the service busy: as many open jobs as it takes, each looked at when it has ended."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.client import body_of
from tests.chaos.orders import Check, Desk

#: So many jobs are open at any time: more than there are slots.
OPEN = 12
LOOK_EVERY = 0.25


@dataclass
class Load:
    """What was handed in, and what became of it."""

    ended: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _open: dict[str, tuple[str, Check]] = field(default_factory=dict)

    async def run(self, url: str, job_service: Desk, deadline: float) -> None:
        orders = job_service.orders()
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            while time.monotonic() < deadline or self._open:
                while len(self._open) < OPEN and time.monotonic() < deadline:
                    await self._hand_in(client, next(orders))
                await self._look(client)
                await asyncio.sleep(LOOK_EVERY)
                if time.monotonic() > deadline + 120:
                    self.wrong.append(f"{len(self._open)} jobs did not end")
                    return

    async def _hand_in(self, client: httpx.AsyncClient, order: Any) -> None:
        response = await client.post(order.route, **body_of(order))
        if response.status_code != 202:
            self.wrong.append(f"{order.kind}: {response.status_code} {response.text[:200]}")
            return
        answer = response.json()
        data = answer.get("data") or answer
        for job_id in data.get("job_ids") or [data["job_id"]]:
            self._open[job_id] = (order.kind, order.check)

    async def _look(self, client: httpx.AsyncClient) -> None:
        for job_id, (kind, check) in list(self._open.items()):
            response = await client.get(f"/api/jobs/{job_id}")
            job = response.json().get("data")
            if not job:
                self.wrong.append(f"{kind}: {response.text[:200]}")
            elif job["completed_at"] is None:
                continue
            elif job["status"] != "completed":
                self.wrong.append(f"{kind}: {job['error']}")
            else:
                self.wrong += [f"{kind}: {fault}" for fault in check(job["results"])]
            self.ended[kind] += 1
            del self._open[job_id]
