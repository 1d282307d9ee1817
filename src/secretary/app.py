"""The composition root: builds each part once and passes it on."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from .config import (
    MEGAPIXEL,
    DocumentOptions,
    DownloadLimits,
    LlmProvider,
    MediaOptions,
    Retention,
    Settings,
)
from .config import Llm as LlmSettings
from .core.errors import InvalidSettings, StoreUnavailable
from .core.job import JobStatus
from .handlers import BUILTIN
from .jobs.conference_import import ConferenceImporter
from .jobs.registry import Registry
from .jobs.service import JobService
from .llm import Endpoints, LlmOptions, Model, Price, Provider, Purpose
from .llm.templates import Library
from .observability import doctor
from .observability.doctor import Finding
from .observability.system_info import Installation, redact, visible_settings
from .storage.artifacts import JobFiles
from .storage.blob_store import BlobStore
from .storage.cache import Cache
from .storage.sources import Sources
from .storage.uploads import Uploads
from .store import STORES, JobStore, open_store
from .worker.executor import Executor
from .worker.maintenance import Maintenance, MaintenanceOptions
from .worker.observer import Observer, Unobserved
from .worker.sandbox import Limits, Sandbox
from .worker.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from .network.client import Network
    from .observability.metrics import Metrics
    from .observability.otel import OtelTracer
    from .webhooks import Sender

logger = logging.getLogger(__name__)

MEBIBYTE = 1024 * 1024
#: Variables of OpenTelemetry that say where its collector is.
COLLECTOR = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def make_registry(settings: Settings) -> Registry:
    registry = Registry(BUILTIN)
    for origin in settings.handlers:
        registry.load(origin)
    group = settings.generic_worker
    by_type = {name: timedelta(seconds=n) for name, n in group.timeout_sec_per_type.items()}
    registry.limit_time(timedelta(seconds=group.timeout_sec), by_type)
    return registry


def make_files(settings: Settings, store: JobStore) -> JobFiles:
    directory = settings.storage.data_dir.resolve()
    blob_store = make_blob_store(settings, store)
    max_bytes = settings.limits.max_upload_mb * MEBIBYTE
    uploads = Uploads(directory, max_bytes=max_bytes, blob_store=blob_store)
    return JobFiles(
        directory, uploads, Cache(directory, settings.cache.max_mb * MEBIBYTE), blob_store
    )


def make_blob_store(settings: Settings, store: JobStore) -> BlobStore | None:
    where = settings.storage.files
    if where.startswith("s3://"):
        try:
            from .storage.s3 import S3BlobStore as S3Depot
        except ImportError:
            raise InvalidSettings(
                "storage.files: a bucket needs obstore: pip install 'secretary[s3]'"
            ) from None
        return S3Depot(where)
    if where == "gridfs" and not settings.storage.mongodb_uri:
        raise InvalidSettings("storage.files: gridfs needs a MongoDB (storage.mongodb_uri)")
    return None if where == "directory" else store.blob_store()


def make_sources(settings: Settings) -> Sources:
    return Sources(
        settings.storage.data_dir.resolve(),
        roots=settings.storage.source_roots,
        allow_hosts=settings.network.allow_hosts,
        limits=download_limits(settings),
    )


def make_conference_importer(settings: Settings) -> ConferenceImporter:
    return ConferenceImporter(settings.network.allow_hosts)


def document_options(settings: Settings) -> DocumentOptions:
    group = settings.documents
    return DocumentOptions(
        ocr_engine=group.ocr_engine,
        ocr_data_directory=str(group.ocr_data_directory) if group.ocr_data_directory else None,
        ocr_language=group.ocr_language,
        max_pages=group.max_pages,
        max_pixels=int(group.max_megapixels * MEGAPIXEL),
        page_timeout=timedelta(seconds=group.page_timeout_sec),
        conversion_timeout=timedelta(seconds=group.conversion_timeout_sec),
    )


def media_options(settings: Settings) -> MediaOptions:
    group = settings.media
    models = group.speech_model_directory
    return MediaOptions(
        ffmpeg=str(group.ffmpeg) if group.ffmpeg else None,
        max_duration=timedelta(hours=group.max_duration_hours),
        speech_engine=group.speech_engine,
        speech_model_directory=str(models.resolve()) if models else None,
        speech_language=group.speech_language,
        piece_timeout=timedelta(seconds=group.piece_timeout_sec),
        max_frames=group.max_frames,
        keep_recording_bytes=group.keep_recording_mb * MEBIBYTE,
    )


def make_network(settings: Settings) -> "Network":
    from .network.client import Network  # like the API: not every command needs it

    return Network(settings.network.allow_hosts)


def download_limits(settings: Settings) -> DownloadLimits:
    return DownloadLimits(
        max_bytes=settings.network.download_max_mb * MEBIBYTE,
        total=timedelta(seconds=settings.network.download_timeout_sec),
    )


def llm_options(settings: Settings) -> LlmOptions:
    llm = settings.llm
    chosen: dict[Purpose, Model | None] = {
        "chat": _model(llm, llm.chat_model or llm.model, llm.chat_provider, llm.chat_parameters),
        "vision": _model(
            llm, llm.vision_model or llm.model, llm.vision_provider, llm.vision_parameters
        ),
        "transcription": _model(
            llm, llm.transcription_model, llm.transcription_provider, llm.transcription_parameters
        ),
    }
    models = {purpose: model for purpose, model in chosen.items() if model}
    return LlmOptions(models, context_tokens=llm.context_tokens)


def _model(
    llm: LlmSettings, name: str | None, chosen: str | None, parameters: dict[str, Any]
) -> Model | None:
    given = llm.providers[chosen] if chosen else llm.endpoint
    if not name or given is None:
        return None
    price = llm.prices.get(name)
    return Model(
        provider=_provider(f"llm.providers.{chosen}" if chosen else "llm", given),
        name=name,
        parameters=parameters,
        price=Price(**price.model_dump()) if price else None,
    )


def _provider(setting: str, given: LlmProvider) -> Provider:
    return Provider(
        setting=setting,
        base_url=given.base_url,
        api_key=given.api_key,
        timeout_seconds=given.timeout_sec,
        max_concurrent=given.max_concurrent,
    )


def make_templates(settings: Settings) -> Library:
    directory = settings.templates.directory
    return Library(directory.absolute() if directory else None)


def make_job_service(
    settings: Settings, store: JobStore, *, on_event: Callable[[], None] = lambda: None
) -> JobService:
    network = cache(partial(make_network, settings))  # most requests need none

    def check_url(url: str) -> None:
        network().check(url, https_only=True)

    registry, files = make_registry(settings), make_files(settings, store)
    return JobService(store, registry, files, check_url=check_url, on_event=on_event)


def make_sender(settings: Settings, store: JobStore) -> "Sender":
    from .webhooks import Sender, SenderOptions

    return Sender(store, make_network(settings), make_files(settings, store), SenderOptions())


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[JobStore]:
    scheme = settings.store_url.partition("://")[0]
    if scheme not in STORES:
        raise InvalidSettings(f"storage.mongodb_uri: {scheme}:// is not a MongoDB address")
    store = open_store(settings.store_url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class Components:
    """A worker and what it needs, ready to run."""

    worker: Worker
    maintenance: Maintenance
    sandbox: Sandbox
    llm: Endpoints


def make_worker(
    settings: Settings,
    store: JobStore,
    *,
    job_types: Collection[str] | None = None,
    slots: int | None = None,
    observer: Observer | None = None,
    on_ended: Callable[[str], None] = lambda job_id: None,
) -> Components:
    observer = observer or Unobserved()
    options = worker_options(settings)
    registry = make_registry(settings)
    options = replace(
        options,
        job_types=job_types,
        handles=registry.job_types.intersection(job_types or registry.job_types),
        slots=slots or options.slots,
    )
    files = make_files(settings, store)
    sandbox = Sandbox(
        settings.generic_worker.processes or max(options.slots, os.cpu_count() or 1),
        limits=Limits(memory_bytes=settings.generic_worker.memory_limit_mb * MEBIBYTE),
        preload=_preload(settings),
        max_calls=10_000,
    )
    llm = Endpoints(llm_options(settings))
    executor = Executor(
        store=store,
        registry=registry,
        sandbox=sandbox,
        files=files,
        sources=make_sources(settings),
        documents=document_options(settings),
        media=media_options(settings),
        llm=llm,
        templates=make_templates(settings),
        max_crashes=settings.generic_worker.max_crashes,
        observer=observer,
        on_ended=on_ended,
    )
    worker = Worker(store, executor, options)
    return Components(worker, make_maintenance(settings, store, observer), sandbox, llm)


def make_maintenance(
    settings: Settings, store: JobStore, observer: Observer | None = None
) -> Maintenance:
    options = MaintenanceOptions(
        max_crashes=settings.generic_worker.max_crashes,
        keep=_keep(settings.retention),
        keep_uploads=timedelta(hours=settings.retention.failed_upload_hours),
    )
    return Maintenance(store, make_files(settings, store), options, observer)


def _preload(settings: Settings) -> tuple[str, ...]:
    """What every process will need: handlers from outside run whole, of ours only the work."""
    return (
        ("secretary.worker.isolation",) if settings.handlers else ("secretary.documents.pdf.pages",)
    )


def worker_options(settings: Settings) -> WorkerOptions:
    group = settings.generic_worker
    return WorkerOptions(
        slots=group.max_concurrent_workers,
        max_per_type=group.max_concurrent_per_type,
        max_per_user=group.max_concurrent_per_user,
        poll_interval=timedelta(seconds=group.poll_interval_sec),
        grace=timedelta(seconds=group.shutdown_grace_sec),
    )


def _keep(retention: Retention) -> dict[JobStatus, timedelta]:
    days = {
        JobStatus.COMPLETED: retention.completed_days,
        JobStatus.FAILED: retention.failed_days,
        JobStatus.CANCELLED: retention.cancelled_days,
    }
    return {status: timedelta(days=number) for status, number in days.items() if number}


def make_metrics(job_service: JobService) -> "Metrics":
    from .observability.metrics import Metrics
    from .observability.service_stats import ServiceStats as Vitals

    return Metrics(job_service.registry.job_types, Vitals(job_service))


def look_at_engines(settings: Settings) -> list[Finding]:
    """What this process would work with."""
    return [
        doctor.check_office(),
        doctor.check_ocr(document_options(settings)),
        *doctor.check_media(media_options(settings)),
        doctor.check_sites(),
        *doctor.check_models(llm_options(settings)),
    ]


def make_installation(settings: Settings) -> Installation:
    def engines() -> list[dict[str, Any]]:
        found = [asdict(finding) for finding in look_at_engines(settings)]
        told: list[dict[str, Any]] = redact(found, settings)
        return told

    return Installation(visible_settings(settings), engines)


def make_tracer(environment: Mapping[str, str]) -> "OtelTracer | None":
    """What tells a collector of requests and jobs, where OpenTelemetry's variables name one."""
    named = any(environment.get(name) for name in COLLECTOR)
    disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not named or disabled or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    try:
        from .observability.otel import OtelTracer as Spans
    except ImportError as error:
        # Some platforms set the variable for every program.
        logger.warning("No traces: pip install 'secretary[otel]' (%s)", error)
        return None
    return Spans()


async def examine(settings: Settings) -> list[Finding]:
    """`secretary doctor`: what is well with this installation, and what is not."""
    file = settings.database_file
    directory = settings.storage.data_dir.resolve()
    findings = [
        doctor.check_program(),
        doctor.check_handlers(make_registry(settings)),
        *look_at_engines(settings),
        doctor.check_templates(make_templates(settings)),
        *doctor.check_directory(directory, embedded_store=file is not None),
    ]
    if file is not None and not file.exists():
        return findings  # looking must not make it
    try:
        async with opened_store(settings) as store:
            return [
                *findings,
                *await doctor.check_store(store),
                *await _look_at_files(settings, store),
            ]
    except StoreUnavailable as error:
        return [*findings, doctor.store_problem(error)]


async def _look_at_files(settings: Settings, store: JobStore) -> list[Finding]:
    try:
        blob_store = make_blob_store(settings, store)
    except InvalidSettings as error:
        return [doctor.files_problem(error)]
    return [] if blob_store is None else [await doctor.check_blob_store(blob_store)]
