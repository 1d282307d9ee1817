"""Judges whether the text layer of a page is usable."""

import re

from .layout.drawings import Box, Drawings

#: Characters from broken fonts.
GARBAGE_CHARACTERS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd\U000f0000-\U0010fffd]"
)
#: Share of odd characters above which the text is garbage.
MAX_GARBAGE_SHARE = 0.12
#: How many characters the statistics need.
MIN_CHARACTERS = 150
#: How many characters are inspected.
MAX_CHARACTERS = 2_000
LATIN = bytes(range(65, 91)) + bytes(range(97, 123))
VOWELS = b"aeiouyAEIOUY"
PUNCTUATION = b"!\"#$%&'*+/;<=>?@[\\]^`{|}~"
MAX_PUNCTUATION_SHARE, MIN_VOWEL_SHARE = 0.4, 0.19
#: Share of the page above which an image may be a scan.
SCAN_COVERAGE = 0.65
#: Share of the page that images must cover to be worth reading.
IMAGE_COVERAGE = 0.02
MIN_STROKES = 20
#: Pages with a scan and fewer words have only stamps or page numbers as text.
MIN_WORDS = 12

NO_TEXT = "The page has no text"
PICTURE_ONLY = "The page is a picture without text"
GARBAGE = "The text of the page is garbage: its fonts do not say which letters they hold"
SCANNED = "The page is a scan, with recognised text behind it"
SCAN_AND_LITTLE = "The page is a scan with hardly any text"


def text_layer_fault(text: str, hidden_share: float, drawings: Drawings, page: Box) -> str | None:
    """Return why the text is unusable, or None. `hidden`: the share of invisible text."""
    if not text or text.isspace():
        if _image_coverage(drawings.images, page) >= IMAGE_COVERAGE:
            return PICTURE_ONLY
        # Text may be drawn as shapes, but not with a few strokes; a blank page has none.
        return NO_TEXT if drawings.object_count >= MIN_STROKES else None
    if _is_garbage(text):
        return GARBAGE
    if not drawings.images or _image_coverage(drawings.images, page) < SCAN_COVERAGE:
        return None
    if hidden_share > 0.5:
        return SCANNED
    return SCAN_AND_LITTLE if len(text.split()) < MIN_WORDS else None


def _is_garbage(text: str) -> bool:
    """Return whether the text is what fonts without a character map give."""
    text = text[:MAX_CHARACTERS]
    if not text.isascii():
        letters = "".join(text.split())
        if len(GARBAGE_CHARACTERS.findall(letters)) > MAX_GARBAGE_SHARE * len(letters):
            return True
    plain = text.encode("ascii", "ignore")
    if len(plain) < MIN_CHARACTERS or len(plain) < 0.95 * len(text):
        # With many accents, which are on vowels, the statistics do not hold.
        return False
    if len(plain) - len(plain.translate(None, PUNCTUATION)) > MAX_PUNCTUATION_SHARE * len(plain):
        return True
    latin = len(plain) - len(plain.translate(None, LATIN))
    vowels = len(plain) - len(plain.translate(None, VOWELS))
    # Letters shifted by a constant have few vowels.
    return latin > MIN_CHARACTERS and vowels < MIN_VOWEL_SHARE * latin


def _image_coverage(images: list[Box], page: Box) -> float:
    """Return the share of the page that images cover; a scan may be cut into strips."""
    area = (page.right - page.left) * (page.top - page.bottom)
    if area <= 0:
        return 0.0
    total = 0.0
    for box in images[:2_000]:
        width = min(box.right, page.right) - max(box.left, page.left)
        height = min(box.top, page.top) - max(box.bottom, page.bottom)
        total += max(width, 0.0) * max(height, 0.0)
    return total / area
