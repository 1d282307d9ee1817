"""The route for Prometheus."""

from fastapi import APIRouter, Request, Response

from ..observability.metrics import CONTENT_TYPE, Metrics
from .auth import Caller

router = APIRouter(tags=["metrics"])


@router.get("/metrics")
async def metrics(request: Request, user: Caller) -> Response:
    """What this process did and what the store holds, as text for Prometheus."""
    kept: Metrics = request.app.state.metrics
    return Response(await kept.exposition(), media_type=CONTENT_TYPE)
