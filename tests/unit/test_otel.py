"""Tracing costs nothing if no collector is configured."""

import subprocess
import sys

import pytest

from secretary.app import make_tracer


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_without_a_collector_there_are_none(environment: dict[str, str]) -> None:
    assert make_tracer(environment) is None


def test_then_nothing_of_it_is_loaded() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "import secretary.api, secretary.app, secretary.serve\n"
        "secretary.app.make_tracer({})\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    # FastAPI loads the API package of OpenTelemetry if it is installed.
    loaded = done.stdout.split()
    assert "secretary.serve" in loaded
    assert not [
        name
        for name in loaded
        if name.startswith(
            ("opentelemetry.sdk", "opentelemetry.exporter", "secretary.observability.otel")
        )
    ]
