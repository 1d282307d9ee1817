"""Hypothesis strategies for arbitrary values: JSON, texts, jobs, batches."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from secretary.core.job import (
    EVENT_NAMES,
    MAX_PRIORITY,
    AccessControl,
    Attempt,
    Batch,
    Delivery,
    DeliveryAttempt,
    Job,
    JobError,
    JobStatus,
    LogEntry,
    Progress,
    Webhook,
)

#: Texts that break code that mistakes them for something else.
HOSTILE = (
    *("", " ", "\n", "\r\n", "\0", "\t", "---", "```", "|", "\\", "<script>", "&amp;", "a\u2028b"),
    *(
        "-->",
        "{{a}}",
        "{% a %}",
        "../..",
        "$where",
        "a.b",
        "null",
        "true",
        "1e999",
        "NaN",
        "\u2019",
    ),
    *(
        "\u202e",
        "\ufeff",
        "\x85",
        "\x7f",
        "🦊",
        "é",
        "# a",
        "> a",
        "- a",
        "1. a",
        "[a](b)",
        "![a](b)",
    ),
)
#: As received in JSON: may contain lone surrogates.
ANY_TEXT = st.text(max_size=40) | st.sampled_from(HOSTILE)
#: As it can be stored: without lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(HOSTILE)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=4)
#: In microseconds, as stored.
TIME = st.datetimes(
    min_value=datetime(1971, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)
)
ERROR = st.builds(JobError, code=NAME, message=TEXT, details=st.none() | OBJECT)
PROGRESS = st.builds(Progress, step=TEXT, percent=st.integers(0, 100), message=TEXT)
LOG = st.builds(LogEntry, timestamp=TIME, message=TEXT)
USER = st.none() | st.sampled_from(("ann", "ben", "*", "a b", "é", "user:x"))
ACCESS = st.builds(
    AccessControl,
    visibility=st.sampled_from(("private", "public")),
    read_access=st.lists(NAME, max_size=2).map(tuple),
    write_access=st.lists(NAME, max_size=2).map(tuple),
    admin_access=st.lists(NAME, max_size=2).map(tuple),
)
WEBHOOK = st.builds(
    Webhook,
    url=TEXT,
    token=st.none() | TEXT,
    job_id=st.none() | TEXT,
    headers=st.dictionaries(NAME, TEXT, max_size=2),
    secret=st.none() | TEXT,
    include_markdown=st.booleans(),
    events=st.none() | st.lists(st.sampled_from(sorted(EVENT_NAMES)), max_size=3).map(tuple),
)
ATTEMPT = st.builds(
    Attempt,
    attempt=st.integers(1, 99),
    worker_id=st.none() | NAME,
    started_at=TIME,
    ended_at=st.none() | TIME,
    error=st.none() | ERROR,
)
TRY = st.builds(
    DeliveryAttempt,
    at=TIME,
    status=st.none() | st.integers(100, 599),
    error=st.none() | TEXT,
    duration_ms=st.integers(0, 10**6),
)
DELIVERY = st.builds(
    Delivery,
    n=st.integers(1, 99),
    delivery_id=NAME,
    event=st.sampled_from(("progress", "completed", "error")),
    created_at=TIME,
    replayed_at=st.none() | TIME,
    delivered_at=st.none() | TIME,
    next_try_at=st.none() | TIME,
    tried=st.integers(0, 99),
    tries=st.lists(TRY, max_size=2).map(tuple),
)
ASKED: dict[str, st.SearchStrategy[Any]] = {
    "job_type": NAME,
    "job_name": st.none() | TEXT,
    "parameters": OBJECT,
    "created_at": TIME,
    "user_id": USER,
    "access_control": ACCESS,
    "priority": st.integers(-MAX_PRIORITY, MAX_PRIORITY),
    "run_at": st.none() | TIME,
    "timeout_s": st.none() | st.floats(0.001, 1e9),
    "max_attempts": st.none() | st.integers(1, 100),
    "retention_days": st.none() | st.floats(0, 36_500),
    "stored_bytes": st.none() | st.integers(0, 2**53),
    "webhook": st.none() | WEBHOOK,
    "traceparent": st.none() | st.just("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
}
#: As a client can request it.
NEW_JOB = st.builds(Job, **ASKED)
#: In any state, even in states that do not occur.
JOB = st.builds(
    Job,
    **ASKED,
    status=st.sampled_from(JobStatus),
    progress=PROGRESS,
    results=st.none() | OBJECT,
    error=st.none() | ERROR,
    updated_at=TIME,
    processing_started_at=st.none() | TIME,
    completed_at=st.none() | TIME,
    batch_id=st.none() | NAME,
    logs=st.lists(LOG, max_size=3).map(tuple),
    archived=st.booleans(),
    deliveries=st.lists(DELIVERY, max_size=2).map(tuple),
    resources=st.dictionaries(NAME, st.floats(0, 1e12), max_size=2),
    attempt=st.integers(0, 99),
    worker_id=st.none() | NAME,
    attempts=st.lists(ATTEMPT, max_size=2).map(tuple),
    failures=st.integers(0, 9),
    crashes=st.integers(0, 9),
    losses=st.integers(0, 9),
    strikes=st.integers(0, 3),
    cancel_requested=st.booleans(),
)
NEW_BATCH = st.builds(
    Batch,
    batch_name=st.none() | TEXT,
    created_at=TIME,
    user_id=USER,
    access_control=ACCESS,
    retention_days=st.none() | st.floats(0, 36_500),
    is_active=st.booleans(),
    webhook=st.none() | WEBHOOK,
)
BATCH = st.builds(
    Batch,
    batch_name=st.none() | TEXT,
    created_at=TIME,
    updated_at=TIME,
    started_at=st.none() | TIME,
    completed_at=st.none() | TIME,
    is_active=st.booleans(),
    archived=st.booleans(),
    user_id=USER,
    access_control=ACCESS,
    retention_days=st.none() | st.floats(0, 36_500),
    webhook=st.none() | WEBHOOK,
    counts=st.dictionaries(st.sampled_from(JobStatus), st.integers(0, 10**6)),
)
