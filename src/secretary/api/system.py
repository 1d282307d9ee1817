"""The route that tells what the service is made of: workers, disk, engines and settings."""

import asyncio
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ..desk import Desk
from ..installation import Installation
from ..vitals import Shared, Vitals
from ..worker_document import worker_document
from .access import Caller
from .asked import desk_of
from .envelope import success

router = APIRouter(prefix="/api", tags=["overview"])


class Premises:
    """What takes a while to find out is found out in a thread, and not for each request anew."""

    def __init__(self, desk: Desk, installation: Installation) -> None:
        self.settings = installation.settings
        self.engines = Shared(partial(asyncio.to_thread, installation.engines))
        self.cache_bytes = Shared(partial(asyncio.to_thread, desk.files.cache.size))


@router.get("/system")
async def get_system(request: Request, user: Caller) -> JSONResponse:
    """The version, the store, the workers with their last sign of life, the disk and the cache;
    for operators also the settings, without secrets, and the engines that were found."""
    desk = desk_of(request)
    vitals: Vitals = request.app.state.vitals
    premises: Premises = request.app.state.premises
    workers, lag, cached = await asyncio.gather(
        desk.store.workers(), vitals.webhook_lag(), premises.cache_bytes.get()
    )
    disk = await vitals.disk()
    # Who acts for a user is a guest here: how the house is built is not theirs to know.
    is_operator = user is None
    told = {
        "version": request.app.version,
        "uptime_s": round(vitals.uptime.total_seconds(), 1),
        "store": {"kind": vitals.store_kind},
        "webhook_lag_s": lag.total_seconds(),
        "workers": [worker_document(one) for one in workers],
        "disk": {"total_bytes": disk.total, "free_bytes": disk.free},
        "cache": {"bytes": cached, "max_bytes": desk.files.cache.max_bytes},
        "engines": await premises.engines.get() if is_operator else None,
        "settings": premises.settings if is_operator else None,
    }
    return success(request, "system", told)
