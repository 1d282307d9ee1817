"""Recognises the text of an image: language detection, OCR, and the layout of its lines."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from PIL import Image

from ...core.languages import detect_language, language_codes
from ..markdown import escape_inline, escape_line_start, pipe_table
from ..pages import PageReading, PageTask, PendingPage, finish_page
from .engines import OcrEngine, OcrLine, OcrWord, open_engine, weighted_median
from .images import dpi_of, open_frame
from .preprocess import OrientedImage, PreparedImage, analyse, despeckle, prepare

#: Used together if the language cannot be detected, as far as installed.
USUAL_LANGUAGES = ("deu", "eng")
#: Pages with fewer lines skip language detection, which would take as long as reading them.
SHORT_PAGE = 12
#: Below this confidence a page may be upside down, or contain no text: text that is upside down is
#: read with 20 to 50, upright text with 70 to 97.
POOR_CONFIDENCE = 65.0
#: Fewer letters do not show that an orientation is right: `Wi` can be `!M`.
CONVINCING_LETTERS = 15
#: Fewer letters that are hardly recognised are not text; one or two must be certain.
FEW_LETTERS = 40
CERTAIN_CONFIDENCE = 90.0
#: How many times more must be recognised before an image is turned.
ROTATION_MARGIN = 1.25
MANY_PIXELS = 2_000_000
#: Larger images are scaled down to look for single words: every speck would be tried as a letter.
SCATTERED_SIDE = 1500
#: Lines below are specks and drawings mistaken for letters.
NO_TEXT_CONFIDENCE = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OcrResult:
    #: Lines as printed, with an empty line between paragraphs.
    text: str = ""
    #: Lines joined to paragraphs, with headings, lists and tables as far as detected.
    markdown: str = ""
    #: 0 to 100, the mean over all letters; 0 if there are none.
    confidence: float = 0.0
    #: Engine language codes, such as `deu+eng`.
    languages: str
    #: Degrees clockwise that turned the image upright: 0, 90, 180 or 270.
    rotation: int = 0
    #: Degrees clockwise of additional deskewing.
    skew: float = 0.0


def process_image_pages(task: PageTask, numbers: Sequence[int]) -> list[PendingPage]:
    """Process these pages and return those that a vision model has to read."""
    pending = []
    for number in numbers:
        picture = open_frame(task.path, number, max_pixels=task.max_pixels)
        readings = {}
        if task.method.ocr:
            readings["ocr"] = ocr_page(task, picture, dpi=dpi_of(picture))
        pending.append(finish_page(task, number, readings, picture))
    return list(filter(None, pending))


def ocr_page(task: PageTask, picture: Image.Image, *, dpi: int | None) -> PageReading:
    """Read one page by OCR."""
    started = time.perf_counter()
    engine = open_engine(task.ocr_engine, task.ocr_data_directory)
    result = recognise(picture, engine=engine, languages=task.languages, dpi=dpi)
    facts: dict[str, Any] = {
        "ocr_language": result.languages,
        "ocr_confidence": round(result.confidence),
        "ocr_seconds": round(time.perf_counter() - started, 2),
    }
    turns = {"rotated_by": result.rotation, "skewed_by": round(result.skew, 1)}
    facts |= {name: degrees for name, degrees in turns.items() if degrees}
    return PageReading(text=result.text, markdown=result.markdown, facts=facts)


def recognise(
    image: Image.Image, *, engine: OcrEngine, languages: str | None, dpi: int | None
) -> OcrResult:
    """Recognise the text of an image. An image without text gives an empty result."""
    codes = "+".join(language_codes(languages or ""))
    grey = despeckle(image if image.mode == "L" else image.convert("L"))
    analysis = analyse(grey)
    if analysis.is_blank:
        return OcrResult(languages=codes)
    prepared = prepare(grey, analysis, dpi)
    if codes or analysis.line_count < SHORT_PAGE:
        return _read_best(prepared, engine, codes or _default_languages(engine))
    oriented, sample = _read_sample(prepared, engine, _probe_language(engine))
    language = detect_language(sample, engine.languages())
    if language is None:
        return _read_best(prepared, engine, _default_languages(engine), oriented.rotation)
    reading = _read_best(prepared, engine, language, oriented.rotation)
    parts = reading.text.split("\n\n")
    others = {detect_language(part, engine.languages()) for part in parts} - {None, language}
    if not others:
        return reading
    upright, both = prepared.oriented(reading.rotation), _default_languages(engine, language)
    lines = engine.read(upright.image, languages=both, dpi=upright.dpi)
    return _result(lines, upright, both)


def recognise_upright(image: Image.Image, *, engine: OcrEngine, languages: str | None) -> OcrResult:
    """Recognise an image that cannot be skewed or turned, such as a slide."""
    codes = "+".join(language_codes(languages or "")) or _default_languages(engine)
    grey = image if image.mode == "L" else image.convert("L")
    analysis = analyse(grey)
    if analysis.is_blank:
        return OcrResult(languages=codes)
    prepared = prepare(grey, replace(analysis, upright_skew=0.0), None)
    upright = prepared.oriented(0)
    lines = engine.read(upright.image, languages=codes, dpi=upright.dpi)
    return _result(lines, upright, codes) if lines else _read_words(prepared, engine, codes)


def _read_best(
    prepared: PreparedImage, engine: OcrEngine, languages: str, likely: int | None = None
) -> OcrResult:
    """Read an image in the orientation in which most is recognised."""
    best: tuple[float, Sequence[OcrLine], OrientedImage] | None = None
    for rotation in _rotations(prepared, likely):
        oriented = prepared.oriented(rotation)
        lines = engine.read(oriented.image, languages=languages, dpi=oriented.dpi)
        if not lines and oriented.image.width * oriented.image.height > MANY_PIXELS:
            break  # Turned lines are seen as well, though not understood; do not try four times.
        if _is_convincing(lines, rotation):
            return _result(lines, oriented, languages)
        score = _recognised(lines) * (1 if rotation else ROTATION_MARGIN)
        if lines and (best is None or score > best[0]):
            best = score, lines, oriented
    return (
        _result(best[1], best[2], languages) if best else _read_words(prepared, engine, languages)
    )


def _read_words(prepared: PreparedImage, engine: OcrEngine, languages: str) -> OcrResult:
    """Read an image without lines: a sign, a label, or a photograph without any text."""
    upright = prepared.oriented(0)
    image = upright.image
    image.thumbnail((SCATTERED_SIDE, SCATTERED_SIDE))
    lines = engine.read_scattered(image, languages=languages, dpi=None)
    return _result(lines, upright, languages) if lines else OcrResult(languages=languages)


def _read_sample(
    prepared: PreparedImage, engine: OcrEngine, languages: str
) -> tuple[OrientedImage, str]:
    """Return the orientation in which a few lines are read best, and their text."""
    best: tuple[float, OrientedImage, str] | None = None
    for rotation in _rotations(prepared, None):
        oriented = prepared.oriented(rotation)
        lines = engine.read(oriented.sample_image(), languages=languages, dpi=oriented.dpi)
        text = as_text(lines)
        if _is_convincing(lines, rotation):
            return oriented, text
        score = _recognised(lines) * (1 if rotation else ROTATION_MARGIN)
        if best is None or score > best[0]:
            best = score, oriented, text
    assert best
    return best[1], best[2]


def _rotations(prepared: PreparedImage, likely: int | None) -> list[int]:
    """Return all orientations, the most likely ones first."""
    order = [90, 270, 0, 180] if prepared.analysis.is_sideways else [0, 180, 90, 270]
    return order if likely is None else sorted(order, key=lambda rotation: rotation != likely)


def _is_convincing(lines: Sequence[OcrLine], rotation: int) -> bool:
    """Whether no other orientation has to be tried."""
    letters = sum(len(line.text) for line in lines)
    enough = letters >= (CONVINCING_LETTERS if rotation else 1)
    return enough and _confidence(lines) >= POOR_CONFIDENCE and not _is_vertical(lines)


def _recognised(lines: Sequence[OcrLine]) -> float:
    """Return how much was recognised: letters, weighted by confidence."""
    letters = sum(len(line.text) for line in lines)
    score = _confidence(lines) * letters
    return score / 2 if _is_vertical(lines) else score


def _is_vertical(lines: Sequence[OcrLine]) -> bool:
    """Whether most of the text runs down the image: engines read that too, but out of order."""
    letters = {True: 0, False: 0}
    for line in lines:
        left, top, right, bottom = line.box
        if len(line.text) >= 3:
            letters[bottom - top > right - left] += len(line.text)
    return letters[True] > letters[False]


def _result(lines: Sequence[OcrLine], oriented: OrientedImage, languages: str) -> OcrResult:
    kept = []
    for line in lines:
        has_letters = any(map(str.isalnum, line.text))
        if line.confidence >= (NO_TEXT_CONFIDENCE if has_letters else POOR_CONFIDENCE):
            kept.append(line)
    if _is_noise(kept):
        return OcrResult(languages=languages)
    return OcrResult(
        text=as_text(kept),
        markdown=as_markdown(kept),
        confidence=round(_confidence(kept), 1),
        languages=languages,
        rotation=oriented.rotation,
        skew=round(oriented.skew, 1),
    )


def _is_noise(lines: Sequence[OcrLine]) -> bool:
    """Whether these few letters are shapes in a photograph."""
    letters = sum(map(str.isalnum, "".join(line.text for line in lines)))
    if letters < 3:
        return _confidence(lines) < CERTAIN_CONFIDENCE
    return letters < FEW_LETTERS and _confidence(lines) < POOR_CONFIDENCE


def _confidence(lines: Sequence[OcrLine]) -> float:
    letters = sum(len(line.text) for line in lines)
    return sum(line.confidence * len(line.text) for line in lines) / letters if letters else 0.0


def _probe_language(engine: OcrEngine) -> str:
    """Return the language whose model reads any other well enough to detect it."""
    installed = engine.languages()
    return next((code for code in ("eng", "deu", *installed) if code in installed), "eng")


def _default_languages(engine: OcrEngine, *first: str) -> str:
    installed = engine.languages()
    languages = dict.fromkeys((*first, *USUAL_LANGUAGES))
    return "+".join(code for code in languages if code in installed) or _probe_language(engine)


#: Lines this much higher than the body text are headings, and their levels.
HEADINGS = ((1.8, 1), (1.4, 2), (1.22, 3))
HEADING_CHARACTERS = 120
#: Bullets, and characters that engines mistake bullets for.
BULLET = re.compile("[•·●▪■◦‣∙*+»«°¢\N{EN DASH}\N{EM DASH}-]\\s+(?=\\S)")
MISTAKEN_BULLET = re.compile(r"([eo®©])\s+(?=[A-ZÄÖÜ0-9])")
NUMBER = re.compile(r"(\d{1,3}|[a-z])([.)])\s+(?=\S)")
#: After a hyphen at a line end these do not continue the word: `Ein- und Ausgang`.
CONJUNCTIONS = {"und", "oder", "bzw", "sowie", "bis", "and", "or", "to", "et", "ou"}
#: Paragraphs are separated by more than this multiple of the usual line pitch.
WIDE_PITCH = 1.3
ENDS = (".", "!", "?", ":", ".)", '."')
HYPHENS = ("-", "\N{HYPHEN}", "\N{SOFT HYPHEN}")


def as_text(lines: Sequence[OcrLine]) -> str:
    groups = _paragraphs(lines, _body_height(lines))
    return "\n\n".join("\n".join(line.text for line in group) for group in groups)


def as_markdown(lines: Sequence[OcrLine]) -> str:
    body_height = _body_height(lines)
    parts: list[tuple[str, bool]] = []
    for part in _split_tables(lines):
        if isinstance(part, str):
            parts.append((part, False))
            continue
        for group in _paragraphs(part, body_height):
            text = " ".join(line.text for line in group)
            is_long = len(group) > 3 or len(text) > HEADING_CHARACTERS
            level = _size(group[0], body_height)
            if not level or is_long or text.endswith((".", ",", ";")):
                parts += _items(group)
            else:
                parts.append((f"{'#' * level} {escape_inline(_joined(group))}", False))
    output = [parts[0][0]] if parts else []
    for (_, was_item), (part_text, is_item) in pairwise(parts):
        output += ["\n" if was_item and is_item else "\n\n", part_text]
    return "".join(output)


def _body_height(lines: Sequence[OcrLine]) -> float:
    """Return the x-height of the body text."""
    return weighted_median((line.height, len(line.text)) for line in lines)


def _paragraphs(lines: Sequence[OcrLine], body_height: float) -> Iterator[list[OcrLine]]:
    page_pitch = _line_pitch(lines)
    for _, group in groupby(lines, key=lambda line: line.block):
        block = list(group)
        pitch = _line_pitch(block) if len(block) > 3 else page_pitch
        right = max(line.box[2] for line in block)
        groups = [block[:1]]
        for above, line in pairwise(block):
            # A paragraph ends with a full stop and room left for the next word.
            letter = (line.box[2] - line.box[0]) / max(1, len(line.text))
            next_word = 2 * letter * (len(line.text.split()[0]) + 2)
            if (
                line.baseline - above.baseline > WIDE_PITCH * pitch
                or _size(above, body_height) != _size(line, body_height)
                or line.height < line.box[0] - above.box[0] < 8 * line.height  # indented
                or (above.text.endswith(ENDS) and above.box[2] + next_word < right)
            ):
                groups.append([])
            groups[-1].append(line)
        yield from groups


def _line_pitch(lines: Sequence[OcrLine]) -> float:
    """Return the usual distance between baselines, or infinity if there is none."""
    pitches = sorted(
        below.baseline - above.baseline
        for above, below in pairwise(lines)
        if above.block == below.block and below.baseline > above.baseline
    )
    return pitches[(len(pitches) - 1) // 3] if pitches else float("inf")


def _size(line: OcrLine, body_height: float) -> int:
    """Return the heading level by size alone, 0 for body text and for lines without letters."""
    if not body_height or not any(map(str.isalpha, line.text)):
        return 0
    return next((level for ratio, level in HEADINGS if line.height >= ratio * body_height), 0)


def _items(group: Sequence[OcrLine]) -> list[tuple[str, bool]]:
    """Return the Markdown of a paragraph, or of each of its list items, and whether it is one."""
    mistaken = sum(MISTAKEN_BULLET.match(line.text) is not None for line in group)
    starts = [
        number
        for number, line in enumerate(group)
        if _list_marker(line.text, allow_mistaken=mistaken > 1)
    ]
    if 0 not in starts and len(starts) < 2:
        return [(_escaped(_joined(group)), False)]
    items = []
    for start, end in pairwise(sorted({0, *starts, len(group)})):
        text = _joined(group[start:end])
        marker, marker_end = _list_marker(text, allow_mistaken=mistaken > 0) or ("", 0)
        items.append((marker + _escaped(text[marker_end:]), bool(marker)))
    return items


def _list_marker(text: str, *, allow_mistaken: bool) -> tuple[str, int] | None:
    """Return the marker of a list item and where its text begins."""
    if match := BULLET.match(text):
        return "- ", match.end()
    if match := NUMBER.match(text):
        return f"{match[1]}{match[2]} ", match.end()
    match = MISTAKEN_BULLET.match(text) if allow_mistaken else None
    return ("- ", match.end()) if match else None


def _joined(group: Sequence[OcrLine]) -> str:
    text = group[0].text
    for line in group[1:]:
        word = re.match(r"[^\W\d_]*", line.text)
        is_hyphenated = text.endswith(HYPHENS) and text[-2:-1].isalnum()
        if not is_hyphenated or (word and word[0] in CONJUNCTIONS):
            text += f" {line.text}"
        else:
            is_split = text[-2].isalpha() and line.text[:1].islower()
            text = (text[:-1] if is_split else text) + line.text
    return text


def _escaped(text: str) -> str:
    """Escape what would be Markdown markup."""
    return escape_line_start(escape_inline(text))


#: A gap between words of this many x-heights separates two table cells.
WIDE_GAP = 2.2
#: Vertical rules of a table, as engines read them.
TABLE_RULES = {"|", "¦", "||", "[", "]"}
MIN_ROWS = 3
#: Longer cells are text columns, not table cells.
MAX_CELL_CHARACTERS = 60
LIST_MARK = re.compile(r"[^\w\s]|(\d{1,3}|[A-Za-z])[.)]|[eo]")


def _split_tables(lines: Sequence[OcrLine]) -> list[list[OcrLine] | str]:
    """Return groups of lines in order, and tables as Markdown in place of their rows."""
    parts: list[list[OcrLine] | str] = []
    groups = groupby(lines, key=lambda line: (line.block, len(_cells(line)) > 1))
    for (_, has_cells), group in groups:
        rows = list(group)
        table = _table(rows) if has_cells else None
        if table is not None:
            parts.append(table)
        elif parts and isinstance(parts[-1], list):
            parts[-1] += rows
        else:
            parts.append(rows)
    return parts


def _table(lines: Sequence[OcrLine]) -> str | None:
    rows = [_cells(line) for line in lines]
    # Overlapping cells share a column.
    columns: list[tuple[int, int]] = []
    for left, right in sorted((cell.left, cell.right) for row in rows for cell in row):
        if columns and left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(right, columns[-1][1]))
        else:
            columns.append((left, right))
    if len(rows) < MIN_ROWS or len(columns) < 2:
        return None
    if any(len(cell.text) > MAX_CELL_CHARACTERS for row in rows for cell in row):
        return None
    if len(columns) == 2 and all(LIST_MARK.fullmatch(row[0].text) for row in rows):
        return None  # a list with wide gaps behind its bullets
    table = [[""] * len(columns) for _ in rows]
    for row, texts in zip(rows, table, strict=True):
        previous = -1
        for cell in row:
            column = next(n for n, (_, right) in enumerate(columns) if cell.right <= right)
            if column == previous:
                return None  # two cells of a row in one column: the gaps are accidental
            texts[column], previous = cell.text, column
    return table_markdown(table)


def table_markdown(rows: Sequence[Sequence[str]]) -> str:
    return pipe_table([[escape_inline(text).replace("|", "\\|") for text in row] for row in rows])


def _cells(line: OcrLine) -> list[OcrWord]:
    cells: list[OcrWord] = []
    is_separate = True
    for word in line.words:
        if word.text in TABLE_RULES:
            is_separate = True
            continue
        if not is_separate and word.left - cells[-1].right <= WIDE_GAP * line.height:
            last = cells.pop()
            word = OcrWord(f"{last.text} {word.text}", last.left, word.right)
        cells.append(word)
        is_separate = False
    return cells
