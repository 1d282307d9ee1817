"""The route that tells what the service is made of: workers, disk, engines and settings."""

import asyncio
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ..jobs.service import JobService
from ..observability.service_stats import CachedQuery, ServiceStats
from ..observability.system_info import Installation
from ..store.claims import worker_document
from .auth import Caller
from .dependencies import job_service_of
from .envelope import success

router = APIRouter(prefix="/api", tags=["overview"])


class SystemInfo:
    """What takes a while to find out is found out in a thread, and not for each request anew."""

    def __init__(self, job_service: JobService, installation: Installation) -> None:
        self.settings = installation.settings
        self.engines = CachedQuery(partial(asyncio.to_thread, installation.engines))
        self.cache_bytes = CachedQuery(partial(asyncio.to_thread, job_service.files.cache.size))


@router.get("/system")
async def get_system(request: Request, user: Caller) -> JSONResponse:
    """The version, the store, the workers with their last sign of life, the disk and the cache;
    for operators also the settings, without secrets, and the engines that were found."""
    job_service = job_service_of(request)
    service_stats: ServiceStats = request.app.state.service_stats
    system_info: SystemInfo = request.app.state.system_info
    workers, lag, cached = await asyncio.gather(
        job_service.store.workers(), service_stats.webhook_lag(), system_info.cache_bytes.get()
    )
    disk = await service_stats.disk()
    # Who acts for a user is a guest here: how the house is built is not theirs to know.
    is_operator = user is None
    told = {
        "version": request.app.version,
        "uptime_s": round(service_stats.uptime.total_seconds(), 1),
        "store": {"kind": service_stats.store_kind},
        "webhook_lag_s": lag.total_seconds(),
        "workers": [worker_document(one) for one in workers],
        "disk": {"total_bytes": disk.total, "free_bytes": disk.free},
        "cache": {"bytes": cached, "max_bytes": job_service.files.cache.max_bytes},
        "engines": await system_info.engines.get() if is_operator else None,
        "settings": system_info.settings if is_operator else None,
    }
    return success(request, "system", told)
