"""Celery as it loses no job: a message is acknowledged when its job is done, and not before."""

from dataclasses import replace

from celery_peer import PEER as DEFAULT
from celery_peer import app
from peer import tool

app.conf.task_acks_late = True
app.conf.task_reject_on_worker_lost = True

PEER = replace(
    DEFAULT,
    runs_as=f"{DEFAULT.runs_as}, acks_late, reject_on_worker_lost",
    durable=True,
    worker=(tool("celery"), "-A", "celery_durable_peer", "worker", "--concurrency", "2"),
)
