"""The results of documents, in the form that all of them share."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ..job import MORE_IN, Job
from ..processors.assembly import (
    MARKDOWN_FILE,
    PAGES_FILE,
    RESULTS_FILE,
    TEXT_FILE,
    Assembled,
)
from ..sources import SourceFile

PREVIEWS = "previews.zip"
IMAGES = "images.zip"


def archives_of(*, images: bool, previews: bool) -> dict[str, str]:
    """The zips to make, and how the names of the pictures begin that go into them."""
    zips = {}
    if images:
        zips[IMAGES] = "image_"
    if previews:
        zips[PREVIEWS] = "preview_"
    return zips


def document_results(
    job: Job,
    source: SourceFile,
    done: Assembled,
    *,
    directory: str,
    facts: Mapping[str, Any],
    is_from_cache: bool,
    context: Mapping[str, Any] | None,
) -> dict[str, Any]:
    def url(name: str, route: str = "/api/files") -> str:
        return f"{route}/{job.job_id}/{quote(name)}"

    def made(name: str) -> str | None:
        return url(name) if name in done.files else None

    text_route = "/api/pdf/text-content" if job.job_type == "pdf" else "/api/files/text"
    return {
        "markdown_file": url(MARKDOWN_FILE) if done.has_text else None,
        "markdown_content": None,
        "extracted_text": None,
        "extracted_text_file": url(TEXT_FILE) if done.has_text else None,
        "page_texts": [url(name, text_route) for name in done.page_texts],
        "page_markdown_file": made(PAGES_FILE),
        "assets": [url(name) for name in done.pictures],
        "asset_dir": directory,
        "target_dir": directory,
        "archive_url": f"/api/jobs/{job.job_id}/download-archive",
        "archive_filename": f"{PurePath(source.name).stem or 'document'}_files.zip",
        "pages_archive_url": made(IMAGES) or made(PREVIEWS),
        "images_archive_url": made(IMAGES),
        "previews_archive_url": made(PREVIEWS),
        "context": context,
        "is_from_cache": is_from_cache,
        "metadata": {
            "file_name": source.name,
            "file_size": source.path.stat().st_size,
            **facts,
        },
        MORE_IN: RESULTS_FILE,
    }
