"""The results of documents, in the form that all of them share."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from ..job import MORE_IN, Job
from ..processors.assembly import (
    MARKDOWN_FILE,
    PAGES_FILE,
    RESULTS_FILE,
    TEXT_FILE,
    Assembled,
)
from ..sources import SourceFile
from .file_links import archive_url, file_url

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
    def made(name: str) -> str | None:
        return file_url(job, name) if name in done.files else None

    text_route = "/api/pdf/text-content" if job.job_type == "pdf" else "/api/files/text"
    return {
        "markdown_file": file_url(job, MARKDOWN_FILE) if done.has_text else None,
        "markdown_content": None,
        "extracted_text": None,
        "extracted_text_file": file_url(job, TEXT_FILE) if done.has_text else None,
        "page_texts": [file_url(job, name, route=text_route) for name in done.page_texts],
        "page_markdown_file": made(PAGES_FILE),
        "assets": [file_url(job, name) for name in done.pictures],
        "asset_dir": directory,
        "target_dir": directory,
        "archive_url": archive_url(job),
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
