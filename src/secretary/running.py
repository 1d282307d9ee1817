"""Runs the service: answers, works, sends events, and stops when a signal says so."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .app import (
    MEBIBYTE,
    Parts,
    make_desk,
    make_installation,
    make_metrics,
    make_schedules,
    make_sender,
    make_spans,
    make_templates,
    make_upkeep,
    make_worker,
    opened_store,
)
from .config import Settings
from .errors import InvalidSettings
from .events import Hub
from .observer import Observer, Observers
from .store import JobStore

if TYPE_CHECKING:
    from .server import HttpServer
    from .spans import Spans
    from .webhooks import Sender

logger = logging.getLogger(__name__)


async def serve(settings: Settings, *, with_worker: bool, ready: Callable[[str], None]) -> None:
    """`secretary serve`: answer HTTP, and work too, until a signal says to stop."""
    # Loaded here, because every other command would wait for it and not need it.
    from .api import create_api
    from .server import HttpServer, listen

    require_writable(settings.storage.data_dir)
    keys = settings.access.api_keys
    with listen(settings.server.host, settings.server.port, loopback_only=not keys) as listener:
        async with opened_store(settings) as store, telling() as spans:
            sender = make_sender(settings, store)
            desk = make_desk(settings, store, on_event=sender.poke)
            hub = Hub(store)
            metrics = make_metrics(desk)
            sender.told = metrics.told
            make = partial(make_worker, settings, store, on_ended=sender.poke)
            parts = make(observer=_both(metrics, spans)) if with_worker else None
            stopping = asyncio.Event()
            api = create_api(
                desk,
                hub=hub,
                library=make_templates(settings),
                schedules=make_schedules(settings),
                installation=make_installation(settings),
                api_keys=keys,
                stopping=stopping.is_set,
                metrics=metrics,
                requests_per_minute=settings.limits.requests_per_minute,
                max_body_bytes=settings.limits.max_request_mb * MEBIBYTE,
                start_span=spans.request if spans else None,
            )
            proxies = settings.server.trusted_proxies
            server = HttpServer(api, listener, _settled(ready), trusted_proxies=proxies)
            on_signals(partial(_stop, stopping, server, hub, parts))
            beside = [asyncio.create_task(metrics.vitals.begin())]
            if parts is None:  # else the worker's upkeep sees to it
                sweeping = make_upkeep(settings, store).sweep_this_machine()
                beside.append(asyncio.create_task(sweeping))
            try:
                async with sending(sender):
                    await _run_together(server, hub, parts, stopping)
            finally:
                for task in beside:
                    task.cancel()
                await hub.close()


def _settled(ready: Callable[[str], None]) -> Callable[[str], None]:
    """What is there when the service is ready stays: the garbage collector need not look at it
    again and again, while requests wait some 50 ms each time."""

    def run(url: str) -> None:
        gc.collect()
        gc.freeze()
        ready(url)

    return run


def _stop(
    stopping: asyncio.Event, server: "HttpServer", hub: Hub | None, parts: Parts | None
) -> None:
    """The first time the worker drains and the API goes on answering; the second time: now."""
    if stopping.is_set():
        server.stop(now=True)
    stopping.set()
    if hub is not None:
        hub.end()  # a stream would keep the server from stopping
    if parts is not None:
        parts.worker.drain()


async def _run_together(
    server: "HttpServer", hub: Hub | None, parts: Parts | None, stopping: asyncio.Event
) -> None:
    """Until the worker has drained; or, when one of them breaks, until the other has ended."""
    answering = asyncio.create_task(server.run_until_stopped())
    working = asyncio.create_task(run_worker(parts) if parts else _set(stopping))
    await asyncio.wait({answering, working}, return_when=asyncio.FIRST_COMPLETED)
    server.stop()
    stopping.set()
    if hub is not None:
        hub.end()
    if parts is not None:
        parts.worker.drain()
    await asyncio.gather(answering, working)


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def work(
    settings: Settings, *, job_types: Collection[str] | None = None, slots: int | None = None
) -> None:
    """`secretary worker`: claim and run jobs until a signal says to stop."""
    require_writable(settings.storage.data_dir)
    async with opened_store(settings) as store, telling() as spans:
        sender = make_sender(settings, store)
        make = partial(
            make_worker, settings, store, job_types=job_types, slots=slots, on_ended=sender.poke
        )
        async with sending(sender):
            if settings.generic_worker.metrics_port is not None:
                await _work_and_tell(settings, store, sender, make, spans)
                return
            parts = make(observer=spans)
            on_signals(parts.worker.drain)  # the first signal drains, the second ends at once
            logger.info("Worker %s takes jobs", parts.worker.worker_id)
            await run_worker(parts)


async def _work_and_tell(
    settings: Settings,
    store: JobStore,
    sender: "Sender",
    make: Callable[..., Parts],
    spans: "Spans | None",
) -> None:
    """Work, and tell health and metrics by HTTP."""
    from .api import create_probe
    from .server import HttpServer, listen

    group, keys = settings.generic_worker, settings.access.api_keys
    with listen(
        group.metrics_host,
        group.metrics_port or 0,
        loopback_only=not keys,
        setting="generic_worker.metrics_host",
    ) as listener:
        desk = make_desk(settings, store)
        metrics = make_metrics(desk)
        sender.told = metrics.told
        parts, stopping = make(observer=_both(metrics, spans)), asyncio.Event()
        probe = create_probe(desk, api_keys=keys, stopping=stopping.is_set, metrics=metrics)
        server = HttpServer(
            probe, listener, lambda url: logger.info("Metrics are at %s/metrics", url)
        )
        on_signals(partial(_stop, stopping, server, None, parts))
        logger.info("Worker %s takes jobs", parts.worker.worker_id)
        await _run_together(server, None, parts, stopping)


async def run_worker(parts: Parts) -> None:
    """Work until the worker was told to drain and has."""
    await parts.sandbox.open()
    upkeep = asyncio.create_task(parts.upkeep.run())
    try:
        await parts.worker.run()
    finally:
        upkeep.cancel()
        with suppress(asyncio.CancelledError):
            await upkeep
        await parts.sandbox.close()
        await parts.llm.close()


@asynccontextmanager
async def telling() -> AsyncIterator["Spans | None"]:
    """Traces are told to a collector, if there is one; at the end, what is left."""
    spans = make_spans(os.environ)
    try:
        yield spans
    finally:
        if spans is not None:
            await asyncio.to_thread(spans.close)


def _both(metrics: Observer, spans: Observer | None) -> Observer:
    return Observers(metrics, spans) if spans is not None else metrics


@asynccontextmanager
async def sending(sender: "Sender") -> AsyncIterator[None]:
    """Events are sent from here on; at the end, what is due by then."""
    task = asyncio.create_task(sender.run())
    try:
        yield
    finally:
        sender.stop()
        await task


def on_signals(act: Callable[[], None]) -> None:
    """Call `act` each time the process is asked to stop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, act)


def require_writable(directory: Path) -> None:
    """Better a sentence at the start than a failure at the first upload."""
    try:
        # Documents lie in it: those who share the machine have no business there.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        text = f"storage.data_dir: {directory} cannot be written: {error.strerror}"
        raise InvalidSettings(text) from None
