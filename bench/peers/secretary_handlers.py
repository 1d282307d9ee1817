"""The jobs as Secretary handlers, in child processes or on the event loop; `rest` waits, as
jobs do that call another server."""

import asyncio
from dataclasses import replace

from peer import HOLD_S, record
from pydantic import BaseModel

from secretary import JobContext, Registry, handles

REST_S = 0.1


class Sent(BaseModel):
    sent: int


@handles("noop", Sent)
async def noop(ctx: JobContext[Sent]) -> None:
    record(ctx.parameters.sent)


@handles("hold", Sent)
async def hold(ctx: JobContext[Sent]) -> None:
    record(ctx.parameters.sent)
    await asyncio.sleep(HOLD_S)


@handles("rest", Sent, isolated=False)
async def rest(ctx: JobContext[Sent]) -> None:
    record(ctx.parameters.sent)
    await asyncio.sleep(REST_S)


def register(registry: Registry) -> None:
    registry.add(noop)
    registry.add(hold)


def register_on_loop(registry: Registry) -> None:
    registry.add(replace(noop, isolated=False))
    registry.add(replace(hold, isolated=False))
    registry.add(rest)
