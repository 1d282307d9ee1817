"""Clients that submit jobs with idempotency keys and retry until they are accepted."""

import asyncio
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from .history import Accepted, AcceptedBatch
from .workload import Check, Order

#: A careful application does not give up sooner.
PATIENCE = 90.0
#: Valid responses while something is broken.
PASSING = (429, 503)


@dataclass
class Book:
    """What was accepted, and how it went."""

    jobs: list[Accepted] = field(default_factory=list)
    batches: list[AcceptedBatch] = field(default_factory=list)
    #: Batches that are cancelled and restarted.
    churned: list[str] = field(default_factory=list)
    checks: dict[str, Check] = field(default_factory=dict)
    #: Responses that made a client retry.
    refused: int = 0
    broken: list[str] = field(default_factory=list)

    def enter(self, order: Order, answer: dict[str, Any]) -> None:
        data = answer.get("data") or answer
        ids = data.get("job_ids") or [data["job_id"]]
        for job_id, hook in zip(ids, order.hooks, strict=True):
            self.jobs.append(Accepted(job_id, order.kind, hook or order.batch_hook))
            self.checks[job_id] = order.check
        if order.route == "/api/batches":
            batch_id, is_churned = answer["data"]["batch_id"], order.kind == "churn"
            self.batches.append(AcceptedBatch(batch_id, tuple(ids), order.batch_hook, is_churned))
            self.churned += [batch_id] if is_churned else []


async def submit_file(
    url: str, orders: Iterator[Order], book: Book, dice: random.Random, deadline: float
) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
        while time.monotonic() < deadline:
            order = next(orders)
            answer = await _insisted(client, order, book)
            if answer is not None:
                book.enter(order, answer)
            await asyncio.sleep(dice.uniform(0.2, 1.0))


async def churn(url: str, book: Book, dice: random.Random, deadline: float) -> None:
    """Cancel and restart batches. A call that fails may have been made or not."""
    async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
        while time.monotonic() < deadline:
            await asyncio.sleep(dice.uniform(0.1, 0.5))
            if not book.churned:
                continue
            batch_id, action = dice.choice(book.churned), dice.choice(("cancel", "restart"))
            bulk = {"action": action, "filter": {"batch_id": batch_id}}
            try:
                response = await client.post("/api/jobs/bulk", json=bulk)
            except httpx.TransportError:
                continue
            if response.status_code not in (200, *PASSING):
                error = f"{action} of {batch_id} was answered with {response.status_code}"
                book.broken.append(f"{error}: {response.text[:300]}")


async def _insisted(client: httpx.AsyncClient, order: Order, book: Book) -> dict[str, Any] | None:
    headers = {"Idempotency-Key": uuid4().hex, "Prefer": "respond-async"}
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            response = await client.post(order.route, headers=headers, **body_of(order))
        except httpx.TransportError:  # nothing listens, or nothing responds
            book.refused += 1
            await asyncio.sleep(0.3)
            continue
        if response.status_code == 202:
            document: dict[str, Any] = response.json()
            return document
        if response.status_code not in PASSING:
            error = f"{order.kind} was answered with {response.status_code}: {response.text[:300]}"
            book.broken.append(error)
            return None
        book.refused += 1
        await asyncio.sleep(0.3)
    book.broken.append(f"a job of type {order.kind} was not accepted within {PATIENCE:.0f} s")
    return None


def body_of(order: Order) -> dict[str, Any]:
    if order.file is None:
        return {"json": order.document}
    data = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in order.document.items()
    }
    return {"files": {"file": order.file}, "data": data}
