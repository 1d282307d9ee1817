"""The results of recordings, in the form that all job types share."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ..job import MORE_IN, Job
from ..processors.assembly import RESULTS_FILE
from ..processors.transcript_files import (
    MARKDOWN_FILE,
    ORIGINAL,
    SRT_FILE,
    TEXT_FILE,
    VTT_FILE,
)
from ..sources import SourceFile


def recording_results(
    job: Job,
    source: SourceFile,
    *,
    directory: str | None,
    facts: Mapping[str, Any],
    frames: Sequence[Mapping[str, Any]],
    is_translated: bool,
    is_from_cache: bool,
    context: Mapping[str, Any] | None,
    has_transcript: bool = True,
) -> dict[str, Any]:
    def url(name: str) -> str:
        return f"/api/files/{job.job_id}/{quote(name)}"

    def subtitles(prefix: str = "") -> dict[str, str]:
        return {"srt": url(prefix + SRT_FILE), "vtt": url(prefix + VTT_FILE)}

    shown = [{**frame, "url": url(str(frame["file"]))} for frame in frames]
    return {
        "markdown_file": url(MARKDOWN_FILE),
        "markdown_content": None,
        "transcription": None,
        "transcript_file": url(TEXT_FILE) if has_transcript else None,
        "subtitles": subtitles() if has_transcript else None,
        "original_subtitles": subtitles(ORIGINAL) if is_translated else None,
        "frames": shown,
        "assets": [frame["url"] for frame in shown],
        "asset_dir": directory,
        "target_dir": directory,
        "archive_url": f"/api/jobs/{job.job_id}/download-archive",
        "archive_filename": f"{PurePath(source.name).stem or 'recording'}_files.zip",
        "context": context,
        "is_from_cache": is_from_cache,
        "metadata": {
            "file_name": source.name,
            "file_size": source.path.stat().st_size,
            **facts,
        },
        MORE_IN: RESULTS_FILE,
    }
