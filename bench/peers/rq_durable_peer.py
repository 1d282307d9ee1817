"""RQ as it tries jobs again whose worker was lost."""

from dataclasses import replace

from peer import blocking
from rq import Retry  # type: ignore[import-not-found]  # only in the peers' environment
from rq_peer import FUNCTIONS, queue
from rq_peer import PEER as DEFAULT

PEER = replace(
    DEFAULT,
    runs_as=f"{DEFAULT.runs_as}, with Retry(max=3)",
    durable=True,
    client=lambda: blocking(
        lambda job, sent: queue().enqueue(FUNCTIONS[job], sent, retry=Retry(max=3))
    ),
)
