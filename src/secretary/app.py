"""The composition root: builds each part of a process once and passes it on."""

import logging
import os
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

from .config import DEFAULT_FILE, MEBIBYTE, Settings
from .core.errors import InvalidSettings, StoreUnavailable
from .core.fence import Fence, missing_features, system_paths, without_private
from .core.job import FINAL_STATUSES, utc_now
from .handlers import BUILTIN
from .jobs.conference_import import ConferenceImporter
from .jobs.events import Observer
from .jobs.handler import Registry
from .jobs.quotas import Quotas
from .jobs.service import JobService
from .llm import Endpoints, LlmOptions
from .llm.templates import Library
from .observability import doctor
from .observability.doctor import Finding, redact
from .storage.artifacts import JobFiles
from .storage.blob_store import BlobStore
from .storage.cache import Cache
from .storage.sources import Sources, Uploads
from .store import STORES, Store, open_store
from .worker.executor import Executor
from .worker.maintenance import Maintenance, MaintenanceOptions
from .worker.sandbox import Limits, Sandbox
from .worker.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from .observability.metrics import Metrics
    from .observability.otel import OtelTracer
    from .store.mongo import MongoStore
    from .webhooks import Sender

logger = logging.getLogger(__name__)

#: OpenTelemetry's variables that name a collector.
COLLECTOR_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
#: Calls after which a sandbox process is replaced.
MAX_SANDBOX_CALLS = 10_000


@dataclass(frozen=True, slots=True)
class WorkerComponents:
    """A worker and what runs beside it."""

    worker: Worker
    maintenance: Maintenance
    sandbox: Sandbox
    llm: Endpoints


class Application:
    """The parts of one process. Each is built when it is first used, and then shared.

    `async with` opens the store and closes it again; everything that needs no store works
    without.
    """

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self.settings = settings
        if store is not None:
            self.store = store
        self._wake_sender: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()

    @cached_property
    def store(self) -> Store:
        scheme = self.settings.store_url.partition("://")[0]
        if scheme not in STORES:
            raise InvalidSettings(f"storage.mongodb_uri: {scheme}:// is not a MongoDB address")
        return open_store(self.settings.store_url)

    @cached_property
    def registry(self) -> Registry:
        registry = Registry(BUILTIN)
        for origin in self.settings.handlers:
            registry.load(origin)
        group = self.settings.generic_worker
        limits = {name: timedelta(seconds=n) for name, n in group.timeout_sec_per_type.items()}
        registry.limit_time(timedelta(seconds=group.timeout_sec), limits)
        return registry

    @cached_property
    def blob_store(self) -> BlobStore | None:
        return make_blob_store(self.settings, self.store)

    @cached_property
    def files(self) -> JobFiles:
        settings, directory = self.settings, self.settings.data_directory
        max_bytes = settings.limits.max_upload_mb * MEBIBYTE
        return JobFiles(
            directory,
            Uploads(directory, max_bytes=max_bytes, blob_store=self.blob_store),
            Cache(directory, settings.cache.max_mb * MEBIBYTE, self.store.secret()),
            self.blob_store,
        )

    @cached_property
    def sources(self) -> Sources:
        return Sources(
            self.settings.data_directory,
            roots=self.settings.storage.source_roots,
            allow_hosts=self.settings.network.allow_hosts,
            allow_private=self.settings.network.allow_private,
            limits=self.settings.network.download_limits,
        )

    @cached_property
    def templates(self) -> Library:
        directory = self.settings.templates.directory
        return Library(directory.absolute() if directory else None)

    @cached_property
    def job_service(self) -> JobService:
        return JobService(
            self.store,
            self.registry,
            self.files,
            check_url=self.sources.check_webhook_url,
            on_event=lambda: self._wake_sender(),
            quotas=Quotas(self.settings.quotas),
            max_retention_days=self.settings.retention.max_days,
        )

    @cached_property
    def conference_importer(self) -> ConferenceImporter:
        return ConferenceImporter(self.sources.network, fence=self.fence)

    @cached_property
    def fence(self) -> Fence | None:
        """What all processes that read documents may use, if the kernel can confine them."""
        mode = self.settings.generic_worker.fence
        missing = missing_features()
        if mode == "required" and missing:
            raise InvalidSettings(
                f"generic_worker.fence: this system cannot confine {'; '.join(missing)}"
            )
        if mode == "off" or sys.platform != "linux":
            return None
        if missing:
            logger.warning("Sandbox processes are not fully confined: %s", "; ".join(missing))
        settings = self.settings
        engines = (settings.documents.ocr_data_directory, settings.media.speech_model_directory)
        private = (str(settings.data_directory), str(DEFAULT_FILE.resolve()))
        system = system_paths(private)
        if settings.media.ffmpeg and (program := shutil.which(settings.media.ffmpeg)):
            system = (*system, os.path.realpath(program))
        reads = tuple(os.path.abspath(path) for path in engines if path)
        if settings.handlers:  # what they call with `ctx.run` may be anywhere on the path
            reads += without_private((path or os.curdir for path in sys.path), private)
        return Fence(reads=reads, system=system)

    @cached_property
    def sender(self) -> "Sender":
        from .webhooks import Sender, SenderOptions  # imports an HTTP client

        timeout = timedelta(seconds=self.settings.webhooks.final_timeout_sec)
        late_wait = timedelta(seconds=self.settings.webhooks.uncertain_retry_sec)
        default = SenderOptions()
        options = replace(
            default,
            finals=replace(default.finals, timeout=timeout),
            schedule=replace(default.schedule, late_wait=late_wait),
        )
        sender = Sender(self.store, self.sources.network, self.files, options)
        self._wake_sender = sender.wake
        return sender

    @cached_property
    def metrics(self) -> "Metrics":
        from .observability.metrics import Metrics, ServiceStats

        metrics = Metrics(self.registry.job_types, ServiceStats(self.job_service))
        self.sender.on_attempt = metrics.webhook_attempted
        return metrics

    def engines(self) -> list[dict[str, Any]]:
        """The findings about engines without secrets. Detecting them may take a while."""
        return redact([asdict(finding) for finding in self.check_engines()], self.settings)

    def maintenance(self, observer: Observer | None = None) -> Maintenance:
        retention = self.settings.retention
        days = {status: getattr(retention, f"{status}_days") for status in FINAL_STATUSES}
        options = MaintenanceOptions(
            retention={status: timedelta(days=n) for status, n in days.items() if n},
            upload_retention=timedelta(hours=retention.failed_upload_hours),
        )
        return Maintenance(self.store, self.files, options, observer)

    def worker(
        self,
        *,
        job_types: Collection[str] | None = None,
        slots: int | None = None,
        observer: Observer | None = None,
        on_ended: Callable[[str], None] = lambda job_id: None,
    ) -> WorkerComponents:
        group, observer = self.settings.generic_worker, observer or Observer()
        handled = self.registry.job_types.intersection(job_types or self.registry.job_types)
        io_types = self.registry.io_types & handled
        options = WorkerOptions(
            slots=slots or group.max_concurrent_workers,
            io_slots=group.max_concurrent_io if io_types else 0,
            io_types=io_types,
            job_types=job_types,
            handles=handled,
            max_per_type=group.max_concurrent_per_type,
            max_per_user=group.max_concurrent_per_user,
            poll_interval=timedelta(seconds=group.poll_interval_sec),
            grace=timedelta(seconds=group.shutdown_grace_sec),
        )
        # Custom handlers run as a whole in the sandbox, built-in ones only send their heavy work.
        is_custom = bool(self.settings.handlers)
        preload = "secretary.worker.isolation" if is_custom else "secretary.documents.pdf.pages"
        sandbox = Sandbox(
            group.processes or max(options.slots, os.cpu_count() or 1),
            limits=Limits(memory_bytes=group.memory_limit_mb * MEBIBYTE),
            preload=(preload,),
            max_calls=MAX_SANDBOX_CALLS,
            fence=self.fence,
        )
        llm = Endpoints(LlmOptions.from_settings(self.settings.llm))
        executor = Executor(
            store=self.store,
            registry=self.registry,
            sandbox=sandbox,
            files=self.files,
            sources=self.sources,
            documents=self.settings.documents,
            media=self.settings.media,
            llm=llm,
            templates=self.templates,
            max_crashes=group.max_crashes,
            counts_usage=self.settings.quotas.enabled,
            fence_handlers=group.fence_handlers,
            observer=observer,
            on_ended=on_ended,
        )
        worker = Worker(self.store, executor, options)
        return WorkerComponents(worker, self.maintenance(observer), sandbox, llm)

    def check_engines(self) -> list[Finding]:
        """The engines this process would use."""
        return [
            doctor.check_office(),
            doctor.check_ocr(self.settings.documents),
            *doctor.check_media(self.settings.media),
            doctor.check_sites(),
            *doctor.check_models(LlmOptions.from_settings(self.settings.llm)),
            *doctor.check_network(self.settings.network),
            *doctor.check_keys(self.settings.access, utc_now()),
        ]

    async def check(self) -> list[Finding]:
        """`secretary doctor`: what works in this installation, and what does not."""
        file = self.settings.database_file
        findings = [
            doctor.check_program(),
            doctor.check_handlers(self.registry),
            doctor.check_fence(self.settings.generic_worker.fence, missing_features()),
            *self.check_engines(),
            doctor.check_templates(self.templates),
            *doctor.check_directory(self.settings.data_directory, embedded_store=file is not None),
        ]
        if file is not None and not file.exists():
            return findings  # opening the store would create it
        try:
            async with self:
                findings += await doctor.check_store(self.store)
                try:
                    if self.blob_store is not None:
                        findings.append(await doctor.check_blob_store(self.blob_store))
                except InvalidSettings as error:
                    findings.append(doctor.files_problem(error))
        except StoreUnavailable as error:
            findings.append(doctor.store_problem(error))
        return findings


def make_blob_store(settings: Settings, store: Store) -> BlobStore | None:
    """Where several machines share their files; None for a directory of this machine."""
    location = settings.storage.files
    if location.startswith("s3://"):
        try:
            from .storage.s3 import S3BlobStore
        except ImportError:
            raise InvalidSettings(
                "storage.files: a bucket needs obstore: pip install 'secretary[s3]'"
            ) from None
        return S3BlobStore(location)
    if location == "gridfs" and not settings.storage.mongodb_uri:
        raise InvalidSettings("storage.files: gridfs needs a MongoDB (storage.mongodb_uri)")
    if location == "directory" or not settings.storage.mongodb_uri:
        return None
    from .storage.gridfs import GridFsBlobStore  # imports the MongoDB driver

    return GridFsBlobStore(cast("MongoStore", store))


def make_tracer(environment: Mapping[str, str]) -> "OtelTracer | None":
    """Exports spans, if OpenTelemetry's variables name a collector."""
    is_named = any(environment.get(name) for name in COLLECTOR_VARIABLES)
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not is_named or is_disabled or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    try:
        from .observability.otel import OtelTracer
    except ImportError as error:
        # Some platforms set the variable for every program.
        logger.warning("Tracing is off: pip install 'secretary[otel]' (%s)", error)
        return None
    return OtelTracer()
