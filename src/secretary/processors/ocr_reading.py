"""The text of a picture of a page."""

import time
from typing import Any

from PIL import Image

from ..engines.ocr import open_engine
from .page_task import PageTask, Reading
from .recognition import recognise


def read_by_ocr(task: PageTask, picture: Image.Image, *, dpi: int | None) -> Reading:
    started = time.perf_counter()
    engine = open_engine(task.ocr_engine, task.ocr_data_directory)
    found = recognise(picture, engine=engine, languages=task.languages, dpi=dpi)
    facts: dict[str, Any] = {
        "ocr_language": found.languages,
        "ocr_confidence": round(found.confidence),
        "ocr_seconds": round(time.perf_counter() - started, 2),
    }
    if found.rotation:
        facts["rotated_by"] = found.rotation
    if found.skew:
        facts["skewed_by"] = round(found.skew, 1)
    return Reading(text=found.text, markdown=found.markdown, facts=facts)
