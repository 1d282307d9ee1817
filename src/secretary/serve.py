"""Runs the service and workers as processes: HTTP server, signals, shutdown."""

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .app import Application, WorkerComponents, make_tracer
from .config import MEBIBYTE, Settings
from .core.errors import InvalidSettings
from .core.files import PRIVATE_UMASK, make_private
from .core.job import utc_now
from .jobs.events import EventHub, Observers
from .observability.doctor import check_keys, check_network, visible_settings

if TYPE_CHECKING:
    from .observability.otel import OtelTracer
    from .webhooks import Sender

logger = logging.getLogger(__name__)


async def serve(settings: Settings, *, with_worker: bool, ready: Callable[[str], None]) -> None:
    """`secretary serve`: answer HTTP requests, and run jobs too, until a signal arrives."""
    from .api import create_api  # no other command needs it, and it takes long to import

    prepare_data_directory(settings)
    warn_about_settings(settings)
    keys = settings.access.api_keys
    with listen(settings.server.host, settings.server.port, loopback_only=not keys) as listener:
        async with Application(settings) as app, tracing() as tracer:
            hub, metrics, stopping = EventHub(app.store), app.metrics, asyncio.Event()
            components = None
            if with_worker:
                observer = Observers(metrics, tracer)
                components = app.worker(observer=observer, on_ended=app.sender.wake)
            api = create_api(
                app.job_service,
                hub=hub,
                library=app.templates,
                schedules=app.conference_importer,
                settings=visible_settings(settings),
                engines=app.engines,
                api_keys=keys,
                stopping=stopping.is_set,
                metrics=metrics,
                requests_per_minute=settings.limits.requests_per_minute,
                max_body_bytes=settings.limits.max_request_mb * MEBIBYTE,
                max_wait_seconds=settings.limits.max_wait_sec,
                start_span=tracer.request if tracer else None,
            )

            def freeze_heap(url: str) -> None:
                """Exclude what exists at startup from garbage collection: scanning it would delay
                requests by some 50 ms each time."""
                gc.collect()
                gc.freeze()
                ready(url)

            proxies = settings.server.trusted_proxies
            server = HttpServer(api, listener, freeze_heap, trusted_proxies=proxies)
            tasks = [asyncio.create_task(metrics.service_stats.warm_up())]
            if components is None:  # a worker does this as part of its maintenance
                tasks.append(asyncio.create_task(app.maintenance().sweep_local_uploads()))
            try:
                async with sending(app.sender):
                    await _run_together(server, stopping, components, hub)
            finally:
                for task in tasks:
                    task.cancel()
                await hub.close()


async def work(
    settings: Settings, *, job_types: Collection[str] | None = None, slots: int | None = None
) -> None:
    """`secretary worker`: claim and run jobs until a signal arrives."""
    prepare_data_directory(settings)
    warn_about_settings(settings)
    async with Application(settings) as app, tracing() as tracer:
        with_probe = settings.generic_worker.metrics_port is not None
        observer = Observers(app.metrics if with_probe else None, tracer)
        async with sending(app.sender):
            components = app.worker(
                job_types=job_types, slots=slots, observer=observer, on_ended=app.sender.wake
            )
            on_signals(components.worker.drain)  # the second signal stops running jobs
            if with_probe:
                await _work_with_probe(app, components)
            else:
                logger.info("Worker %s takes jobs", components.worker.worker_id)
                await run_worker(components)


async def _work_with_probe(app: Application, components: WorkerComponents) -> None:
    """Work, and serve health checks and metrics over HTTP."""
    from .api import create_probe

    group, keys = app.settings.generic_worker, app.settings.access.api_keys
    host, port, setting = group.metrics_host, group.metrics_port or 0, "generic_worker.metrics_host"
    with listen(host, port, loopback_only=not keys, setting=setting) as listener:
        stopping = asyncio.Event()
        probe = create_probe(
            app.job_service, api_keys=keys, stopping=stopping.is_set, metrics=app.metrics
        )
        server = HttpServer(
            probe, listener, lambda url: logger.info("Metrics are at %s/metrics", url)
        )
        logger.info("Worker %s takes jobs", components.worker.worker_id)
        await _run_together(server, stopping, components)


async def _run_together(
    server: "HttpServer",
    stopping: asyncio.Event,
    components: WorkerComponents | None,
    hub: EventHub | None = None,
) -> None:
    """Run until the worker has drained; if the server or the worker fails, stop the other. On the
    first signal drain the worker and keep answering; on the second stop at once."""

    def drain() -> None:
        stopping.set()
        if hub is not None:
            hub.stop()  # an open stream would keep the server from stopping
        if components is not None:
            components.worker.drain()

    def on_signal() -> None:
        if stopping.is_set():
            server.stop(now=True)
        drain()

    on_signals(on_signal)
    work: Coroutine[Any, Any, object] = run_worker(components) if components else stopping.wait()
    serving, working = asyncio.create_task(server.run_until_stopped()), asyncio.create_task(work)
    await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
    server.stop()
    drain()
    await asyncio.gather(serving, working)


async def run_worker(components: WorkerComponents) -> None:
    """Work until the worker has drained."""
    await components.sandbox.open()
    maintenance = asyncio.create_task(components.maintenance.run())
    try:
        await components.worker.run()
    finally:
        maintenance.cancel()
        with suppress(asyncio.CancelledError):
            await maintenance
        await components.sandbox.close()
        await components.llm.close()


@asynccontextmanager
async def tracing() -> AsyncIterator["OtelTracer | None"]:
    """Export spans if a collector is configured; the last ones at exit."""
    tracer = make_tracer(os.environ)
    try:
        yield tracer
    finally:
        if tracer is not None:
            await asyncio.to_thread(tracer.close)


@asynccontextmanager
async def sending(sender: "Sender") -> AsyncIterator[None]:
    """Deliver webhook events in the background; at exit, those that are due."""
    task = asyncio.create_task(sender.run())
    try:
        yield
    finally:
        sender.stop()
        await task


def on_signals(act: Callable[[], None]) -> None:
    """Call `act` on each SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, act)


def warn_about_settings(settings: Settings) -> None:
    """Log what is meant for development only, and keys that are short or expire."""
    findings = (*check_network(settings.network), *check_keys(settings.access, utc_now()))
    for finding in findings:
        logger.warning("%s. %s", finding.fact, finding.remedy)


def prepare_data_directory(settings: Settings) -> None:
    """Make the data directory writable for this process, and its files private: new ones, and those
    that earlier versions have created. Other files in it stay as they are, and so does the mode of
    a directory that existed before."""
    os.umask(PRIVATE_UMASK)
    require_writable(settings.storage.data_dir)
    directory = settings.data_directory
    try:
        if changed := make_private(own_files(directory)):
            logger.warning(
                "Other accounts of this machine could read files in %s: changed the modes of %d"
                " files and directories of the service, and of no others",
                directory,
                changed,
            )
    except OSError as error:
        logger.warning(
            "Other accounts of this machine may be able to read files in %s: %s", directory, error
        )


def own_files(directory: Path) -> Iterator[Path]:
    """What the service has created in its data directory. In `uploads` there may be other files,
    for jobs to read."""
    names = ("jobs", "cache", "sessions", "secret.key")
    database = (f"secretary.db{suffix}" for suffix in ("", "-wal", "-shm", "-journal", "-wake"))
    yield from (directory / name for name in (*names, *database))
    uploads = directory / "uploads"
    if uploads.is_dir():
        yield from uploads.glob("job-*")
        if all(path.name.startswith("job-") for path in uploads.iterdir()):
            yield uploads


def require_writable(directory: Path) -> None:
    """Fail at startup rather than at the first upload."""
    try:
        # Documents are in it, so other users of the machine get no access.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        text = f"storage.data_dir: {directory} cannot be written: {error.strerror}"
        raise InvalidSettings(text) from None


BACKLOG = 2048
#: Longer than proxies keep a connection: the client side has to close first.
KEEP_ALIVE_SECONDS = 75
#: Size of the request line and the headers of a request.
MAX_HEAD_BYTES = 65_536
#: What the request line has beside method and URL: two spaces, the version, the line end, and the
#: empty line after the headers.
HEAD_OVERHEAD_BYTES = len(b"  HTTP/1.1\r\n\r\n")
HEAD_END = b"\r\n\r\n"
HEAD_TOO_LARGE = (
    b'{"status":"error","error":{"code":"HEADERS_TOO_LARGE","message":"The request line and the'
    b' headers exceed the limit of 65,536 bytes","details":null}}'
)
#: Requests of one connection that are parsed together; those behind them wait in the socket.
MAX_PIPELINED = 8
#: How long responses in flight may take when the server stops.
GRACE_SECONDS = 5


def listen(
    host: str, port: int, *, loopback_only: bool, setting: str = "server.host"
) -> socket.socket:
    """Open a listening socket. Without API keys anyone who reaches it has full access, so
    `loopback_only` refuses other addresses. `setting` is named in errors."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        if loopback_only and not ip_address(address[0]).is_loopback:
            raise InvalidSettings(
                f"{setting}: {host} can be reached from other machines, so API keys are needed."
                " Set access.api_keys (SECRETARY_API_KEYS), or use 127.0.0.1."
            )
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
        # Otherwise the body of a response waits some 40 ms for the client to acknowledge the
        # headers: asyncio sets this only for sockets created with the protocol's number.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        reason = error.strerror or str(error)
        group = setting.partition(".")[0]
        raise InvalidSettings(f"{group}: cannot listen on {host}:{port}: {reason}") from None


class Flow(FlowControl):
    """Reading stays paused while bytes are waiting to be parsed, whatever uvicorn asks for."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class Connection(HttpToolsProtocol):
    """Bounds what a client can make the server buffer: the time a request may take to arrive, the
    size of its head, and the requests it sends before it has read the responses. The number of
    connections is left to the system: each stream needs one, and a refusal without our error
    format would not help clients."""

    #: How long a client may take to send the headers of a request.
    head_seconds: ClassVar = 30.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.flow: Flow
        self._deadline: asyncio.TimerHandle | None = None
        #: Bytes since the last complete head, body chunk or request.
        self._pending_bytes = 0
        self._head_bytes = 0
        #: Received, but not parsed before the parsed requests have been answered.
        self._unparsed = b""
        self._is_refused = False

    def connection_made(  # type: ignore[override]  # uvicorn's narrower type
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        self.flow = Flow(transport)
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        if not self._is_refused:
            self._unparsed += data
            self._parse()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._unparsed:
            self._parse()

    def _parse(self) -> None:
        """Parse a few requests at a time, and no more while any of them is waiting."""
        data, start = self._unparsed, 0
        while start < len(data) and not (
            self.pipeline or self._is_refused or self.transport.is_closing()
        ):
            end = _after_heads(data, start)
            self._feed(data[start:end])
            start = end
        self._unparsed = b"" if self._is_refused else data[start:]
        was_held = self.flow.is_held
        self.flow.is_held = bool(self._unparsed) or self._is_refused
        if self.flow.is_held:
            self.flow.pause_reading()
        elif was_held and not self.pipeline and not self.transport.is_closing():
            # Only what was paused here: uvicorn pauses reading while a body waits for the handler.
            self.flow.resume_reading()

    def _feed(self, data: bytes) -> None:
        before = self.cycle
        self._pending_bytes += len(data)
        super().data_received(data)
        if self.cycle is not before:  # the head is complete
            self._cancel_deadline()
        elif before is None or before.response_complete:
            # Part of a head, or the rest of a rejected body.
            self._start_deadline()
        if self._pending_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._head_bytes = self._pending_bytes
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, with a 431 if the head is too large."""
        last = self.cycle
        if last and not last.response_complete and (self.pipeline or not last.more_body):
            # The client would take the error for the response to an earlier request.
            self._is_refused, last.keep_alive = True, False
        elif self._head_bytes > MAX_HEAD_BYTES:
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
                b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                % (len(HEAD_TOO_LARGE), HEAD_TOO_LARGE)
            )
            self.transport.close()
        else:
            super().send_400_response(msg)

    # Parser callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = HEAD_OVERHEAD_BYTES

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._head_bytes += len(name) + len(value) + len(b": \r\n")

    def on_headers_complete(self) -> None:
        self._head_bytes += len(self.parser.get_method())
        if self._head_bytes > MAX_HEAD_BYTES:
            raise ValueError("The head of the request is too large")  # stops the parser
        super().on_headers_complete()
        self._pending_bytes = self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._pending_bytes = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._pending_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_seconds, self.transport.close)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _after_heads(data: bytes, start: int) -> int:
    """Where to end the part of the data that begins at `start`: after `MAX_PIPELINED` heads, or
    after the last complete one, so that what follows it is counted separately."""
    end = start
    for _ in range(MAX_PIPELINED):
        found = data.find(HEAD_END, end)
        if found < 0:
            return end if end > start else len(data)
        end = found + len(HEAD_END)
    return end


class HttpServer(uvicorn.Server):
    """Calls `ready` with its URL once it accepts requests."""

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
                ws="none",
                # Any client can send X-Forwarded-For; it is trusted from these only.
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
        host, port = self._listener.getsockname()[:2]
        self._ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `on_signals`: they concern the whole process."""
        yield
