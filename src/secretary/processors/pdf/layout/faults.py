"""Why the text layer of a page is of no use."""

import re

from .drawings import Box, Drawings

#: Characters that no one writes: broken fonts give them.
ODD = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd\U000f0000-\U0010fffd]")
#: Of the characters: with more odd ones the text is garbage.
MOST_ODD = 0.12
#: Of the page: a picture that covers more may be a scan.
SCAN = 0.65
#: Words: a page has fewer beside a scan only if they are stamps or page numbers.
FEW = 12

NO_TEXT = "The page has no text"
PICTURE_ONLY = "The page is a picture without text"
GARBAGE = "The text of the page is garbage: its fonts do not say which letters they hold"
SCANNED = "The page is a scan, with recognised text behind it"
SCAN_AND_LITTLE = "The page is a scan with hardly any text"


def fault_of(text: str, hidden: float, drawings: Drawings, page: Box) -> str | None:
    """`hidden`: the share of the text that is not to be seen."""
    letters = "".join(text.split())
    covered = _covered(drawings.pictures, page)
    if not letters:
        if drawings.pictures:
            return PICTURE_ONLY
        # Letters may be drawn as shapes; a blank page has none.
        return NO_TEXT if drawings.count else None
    if len(ODD.findall(letters)) > MOST_ODD * len(letters):
        return GARBAGE
    if covered >= SCAN:
        if hidden > 0.5:
            return SCANNED
        if len(text.split()) < FEW:
            return SCAN_AND_LITTLE
    return None


def _covered(pictures: list[Box], page: Box) -> float:
    """The largest picture, or strips of one beside each other: the part of the page they take."""
    area = (page.right - page.left) * (page.top - page.bottom)
    if area <= 0:
        return 0.0
    total = 0.0
    for box in pictures[:2_000]:
        width = min(box.right, page.right) - max(box.left, page.left)
        height = min(box.top, page.top) - max(box.bottom, page.bottom)
        total += max(width, 0.0) * max(height, 0.0)
    return total / area
