"""Why the text layer of a page is of no use."""

import re

from .drawings import Box, Drawings

#: Characters that no one writes: broken fonts give them.
ODD = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd\U000f0000-\U0010fffd]")
#: Of the characters: with more odd ones the text is garbage.
MOST_ODD = 0.12
#: Characters before anything can be said about how they are spread.
ENOUGH = 150
#: Characters that are looked at: they say enough about the rest.
LONGEST = 2_000
LATIN = bytes(range(65, 91)) + bytes(range(97, 123))
VOWELS = b"aeiouyAEIOUY"
MARKS = b"!\"#$%&'*+/;<=>?@[\\]^`{|}~"
MOST_MARKS, FEWEST_VOWELS = 0.4, 0.19
#: Of the page: a picture that covers more may be a scan.
SCAN = 0.65
#: Of the page: what pictures must cover to be worth reading.
SEEN = 0.02
MOST_STROKES = 20
#: Words: a page has fewer beside a scan only if they are stamps or page numbers.
FEW = 12

NO_TEXT = "The page has no text"
PICTURE_ONLY = "The page is a picture without text"
GARBAGE = "The text of the page is garbage: its fonts do not say which letters they hold"
SCANNED = "The page is a scan, with recognised text behind it"
SCAN_AND_LITTLE = "The page is a scan with hardly any text"


def fault_of(text: str, hidden: float, drawings: Drawings, page: Box) -> str | None:
    """`hidden`: the share of the text that is not to be seen."""
    if not text or text.isspace():
        if _covered(drawings.pictures, page) >= SEEN:
            return PICTURE_ONLY
        # Letters may be drawn as shapes, but not with a few strokes; a blank page has none.
        return NO_TEXT if drawings.count >= MOST_STROKES else None
    if is_garbage(text):
        return GARBAGE
    if not drawings.pictures or _covered(drawings.pictures, page) < SCAN:
        return None
    if hidden > 0.5:
        return SCANNED
    return SCAN_AND_LITTLE if len(text.split()) < FEW else None


def is_garbage(text: str) -> bool:
    """No one has written this: it is what a font without a table of letters gives."""
    text = text[:LONGEST]
    if not text.isascii():
        letters = "".join(text.split())
        if len(ODD.findall(letters)) > MOST_ODD * len(letters):
            return True
    plain = text.encode("ascii", "ignore")
    if len(plain) < ENOUGH or len(plain) < 0.95 * len(text):
        # Where accents are common, they stand on vowels: nothing can be said.
        return False
    if len(plain) - len(plain.translate(None, MARKS)) > MOST_MARKS * len(plain):
        return True
    latin = len(plain) - len(plain.translate(None, LATIN))
    vowels = len(plain) - len(plain.translate(None, VOWELS))
    # Letters shifted by a constant keep few vowels.
    return latin > ENOUGH and vowels < FEWEST_VOWELS * latin


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
