"""Runs the service and workers as processes: HTTP server, signals, shutdown."""

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .app import (
    MEBIBYTE,
    Components,
    make_conference_importer,
    make_installation,
    make_job_service,
    make_maintenance,
    make_metrics,
    make_sender,
    make_templates,
    make_tracer,
    make_worker,
    opened_store,
)
from .config import Settings
from .core.errors import InvalidSettings
from .jobs.events import EventHub
from .store import JobStore
from .worker.observer import Observer, Observers

if TYPE_CHECKING:
    from .observability.otel import OtelTracer
    from .webhooks import Sender

logger = logging.getLogger(__name__)


async def serve(settings: Settings, *, with_worker: bool, ready: Callable[[str], None]) -> None:
    """`secretary serve`: answer HTTP, and work too, until a signal says to stop."""
    # Loaded here, because every other command would wait for it and not need it.
    from .api import create_api

    pass

    require_writable(settings.storage.data_dir)
    keys = settings.access.api_keys
    with listen(settings.server.host, settings.server.port, loopback_only=not keys) as listener:
        async with opened_store(settings) as store, telling() as spans:
            sender = make_sender(settings, store)
            job_service = make_job_service(settings, store, on_event=sender.poke)
            hub = EventHub(store)
            metrics = make_metrics(job_service)
            sender.told = metrics.told
            make = partial(make_worker, settings, store, on_ended=sender.poke)
            parts = make(observer=_both(metrics, spans)) if with_worker else None
            stopping = asyncio.Event()
            api = create_api(
                job_service,
                hub=hub,
                library=make_templates(settings),
                schedules=make_conference_importer(settings),
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
            beside = [asyncio.create_task(metrics.service_stats.begin())]
            if parts is None:  # else the worker's upkeep sees to it
                sweeping = make_maintenance(settings, store).sweep_this_machine()
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
    stopping: asyncio.Event, server: "HttpServer", hub: EventHub | None, parts: Components | None
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
    server: "HttpServer", hub: EventHub | None, parts: Components | None, stopping: asyncio.Event
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
    make: Callable[..., Components],
    spans: "OtelTracer | None",
) -> None:
    """Work, and tell health and metrics by HTTP."""
    from .api import create_probe

    pass

    group, keys = settings.generic_worker, settings.access.api_keys
    with listen(
        group.metrics_host,
        group.metrics_port or 0,
        loopback_only=not keys,
        setting="generic_worker.metrics_host",
    ) as listener:
        job_service = make_job_service(settings, store)
        metrics = make_metrics(job_service)
        sender.told = metrics.told
        parts, stopping = make(observer=_both(metrics, spans)), asyncio.Event()
        probe = create_probe(job_service, api_keys=keys, stopping=stopping.is_set, metrics=metrics)
        server = HttpServer(
            probe, listener, lambda url: logger.info("Metrics are at %s/metrics", url)
        )
        on_signals(partial(_stop, stopping, server, None, parts))
        logger.info("Worker %s takes jobs", parts.worker.worker_id)
        await _run_together(server, None, parts, stopping)


async def run_worker(parts: Components) -> None:
    """Work until the worker was told to drain and has."""
    await parts.sandbox.open()
    maintenance = asyncio.create_task(parts.maintenance.run())
    try:
        await parts.worker.run()
    finally:
        maintenance.cancel()
        with suppress(asyncio.CancelledError):
            await maintenance
        await parts.sandbox.close()
        await parts.llm.close()


@asynccontextmanager
async def telling() -> AsyncIterator["OtelTracer | None"]:
    """Traces are told to a collector, if there is one; at the end, what is left."""
    spans = make_tracer(os.environ)
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


BACKLOG = 2048
#: Longer than the proxies in front of us keep a connection: who closes first must be them.
KEEP_ALIVE_SECONDS = 75
#: The head of a request, which is kept in memory, may be so large.
MAX_HEAD_BYTES = 65_536
#: Answers that are on their way when the server stops get so long to arrive.
GRACE_SECONDS = 5


def listen(
    host: str, port: int, *, loopback_only: bool, setting: str = "server.host"
) -> socket.socket:
    """A socket on that address. Whoever reaches it may do anything, unless there are keys.
    `setting` is the one to be named when the address cannot be used."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        if loopback_only and not ip_address(address[0]).is_loopback:
            raise InvalidSettings(
                f"{setting}: {host} can be reached from other machines, so API keys are needed."
                " Set access.api_keys (SECRETARY_API_KEYS), or use 127.0.0.1."
            )
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
        # Else the body of an answer waits some 40 ms until the client has confirmed the head:
        # asyncio does this only for sockets that were made with the protocol's number.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        reason = error.strerror or str(error)
        group = setting.partition(".")[0]
        raise InvalidSettings(f"{group}: cannot listen on {host}:{port}: {reason}") from None


class Connection(HttpToolsProtocol):
    """Ends a connection on which a request begins and does not get on; uvicorn would wait for ever
    and keep whatever comes. How many connections there are is for the system to limit: each
    stream is one, and a refusal without our form and headers would help nobody."""

    #: A client has so long for the head of a request.
    head_seconds: ClassVar = 30.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience: asyncio.TimerHandle | None = None
        #: Received since there was a whole head, a piece of a body or a whole request.
        self._pending_bytes = 0

    def connection_made(  # type: ignore[override]  # uvicorn's narrower type
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        self._lose_patience_later()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        self._pending_bytes += len(data)
        super().data_received(data)
        if self.cycle is not before:  # a head was complete
            self._be_patient()
        elif before is None or before.response_complete:
            # A head, or the rest of a body that was refused.
            self._lose_patience_later()
        if self._pending_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._pending_bytes = 0

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._pending_bytes = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._pending_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        super().connection_lost(exc)

    def _lose_patience_later(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.head_seconds, self.transport.close)

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class HttpServer(uvicorn.Server):
    """`ready` is called with the URL once requests are answered."""

    def __init__(
        self,
        app: Any,
        listener: socket.socket,
        ready: Callable[[str], None],
        *,
        connection: type[Connection] = Connection,
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                http=connection,
                # Any client can write X-Forwarded-For; only these are believed.
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=list(trusted_proxies),
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._listener = listener
        self._ready = ready

    async def run_until_stopped(self) -> None:
        await self.serve(sockets=[self._listener])

    def stop(self, *, now: bool = False) -> None:
        self.should_exit = True
        self.force_exit = self.force_exit or now

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready(_url(self._listener))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for the whole process: see `running.on_signals`."""
        yield


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
