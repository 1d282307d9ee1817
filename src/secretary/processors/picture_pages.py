"""The frames of a picture file as pages: most have one, a scan as TIFF may have many."""

from collections.abc import Sequence
from typing import Any

from .page_task import (
    PageTask,
    Unfinished,
    finish,
    picture_for_model,
    save_pictures,
)
from .pictures import count_frames, dpi_of, open_frame


def inspect_picture(path: str, max_pixels: int) -> dict[str, Any]:
    return {"page_count": count_frames(path, max_pixels=max_pixels)}


def make_picture_pages(task: PageTask, numbers: Sequence[int]) -> list[Unfinished]:
    """Make these pages; those come back that a vision model has to read."""
    unfinished = []
    for number in numbers:
        picture = open_frame(task.path, number, max_pixels=task.max_pixels)
        readings = {}
        if task.method.ocr:
            from .ocr_reading import read_by_ocr  # it is heavy, and a preview needs none

            readings["ocr"] = read_by_ocr(task, picture, dpi=dpi_of(picture))
        pictures = save_pictures(task, number, picture)
        if task.method.llm:
            sent = picture_for_model(task, number, picture)
            left = Unfinished(number=number, readings=readings, pictures=pictures, picture=sent)
            unfinished.append(left)
        else:
            finish(task, number, readings, pictures)
    return unfinished
