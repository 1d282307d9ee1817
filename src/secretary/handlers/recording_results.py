"""The results of recordings, in the form that all job types share."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

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
from .file_links import archive_url, file_url


def recording_results(
    job: Job,
    source: SourceFile,
    *,
    directory: str | None,
    facts: Mapping[str, Any],
    frames: Sequence[Mapping[str, Any]],
    has_transcript: bool,
    is_translated: bool,
    is_from_cache: bool,
    context: Mapping[str, Any] | None,
) -> dict[str, Any]:
    def subtitles(prefix: str = "") -> dict[str, str]:
        return {"srt": file_url(job, prefix + SRT_FILE), "vtt": file_url(job, prefix + VTT_FILE)}

    shown = [{**frame, "url": file_url(job, frame["file"])} for frame in frames]
    return {
        "markdown_file": file_url(job, MARKDOWN_FILE),
        "markdown_content": None,
        "transcription": None,
        "transcript_file": file_url(job, TEXT_FILE) if has_transcript else None,
        "subtitles": subtitles() if has_transcript else None,
        "original_subtitles": subtitles(ORIGINAL) if is_translated else None,
        "frames": shown,
        "assets": [frame["url"] for frame in shown],
        "asset_dir": directory,
        "target_dir": directory,
        "archive_url": archive_url(job),
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
