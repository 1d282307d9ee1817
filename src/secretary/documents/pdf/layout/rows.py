"""Joins text runs into segments, rows and lines."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from .runs import Run

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
#: Share of the page height at its edges that can hold headers, footers and page numbers.
MARGIN = 0.1
PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.|s\.)\s*)?(?:\d{1,5}|[ivxlc]{1,7})(?:\s*(?:/|of|von|-)\s*\d{1,5})?\W*",
    re.IGNORECASE,
)
#: Symbol fonts have their bullets in the private use area.
BULLETS = "•◦▪▫‣\u2043·∙●○■□◆◇▶►➢➤✓✔❖❑\uf0b7\uf0a7\uf0d8\uf076\uf0fc\uf0a8\uf02d\uf06e\uf071"
BULLET = re.compile(rf"(?:[{BULLETS}]|[-\u2013\u2014*o](?=\s))\s*")
#: Letters need a bracket: a capital with a full stop is someone's initial.
LIST_NUMBER = re.compile(
    r"(?:\(?(\d{1,3})[.)]|\((?:[a-zA-Z]|[ivx]{1,5})\)|(?:[a-z]|[ivx]{1,5})\)|[a-z]\.)\s+(?=\S)"
)


def parse_list_marker(text: str) -> tuple[str, str] | None:
    """Return the list marker as Markdown and the text after it, or None if there is no marker."""
    if (match := BULLET.match(text)) and match.end() < len(text):
        return "-", text[match.end() :]
    if not (match := LIST_NUMBER.match(text)):
        return None
    marker = f"{int(match[1])}." if match[1] else f"- {match[0].strip()}"
    return marker, text[match.end() :]


#: In ems: a gap that cannot be a space, and one that probably is not.
WORD_GAP, LIKELY_GAP = 1.0, 0.55
#: The same in monospaced fonts, whose spaces are wider.
MONO_GAP = 1.3
SPACE_WIDTH = 0.12
#: Share of the rows, and of a row, in a monospaced font that makes source code.
CODE_SHARE = 0.8


@dataclass(slots=True, eq=False)
class Segment:
    """Adjacent runs of a line, without gaps between them."""

    runs: list[Run]
    left: float
    right: float
    baseline: float
    size: float

    @property
    def top(self) -> float:
        return self.baseline + 0.75 * self.size

    @property
    def bottom(self) -> float:
        return self.baseline - 0.25 * self.size

    @property
    def text(self) -> str:
        """Join runs. On the same line PDFium splits only at spaces; otherwise the gap decides."""
        text = self.runs[0].text
        for before, run in pairwise(self.runs):
            gap = max(run.left - before.right, before.left - run.right)
            space = SPACE_WIDTH * min(before.style.size, run.style.size)
            is_separate = before.line == run.line or abs(gap) > space or before.hyphenated
            text += f" {run.text}" if is_separate else run.text
        return text

    @property
    def weight(self) -> int:
        return sum([len(run.text) for run in self.runs])


def join_runs(runs: Iterable[Run], max_gap: float = LIKELY_GAP) -> list[Segment]:
    segments: list[Segment] = []
    before: Run | None = None
    for run in runs:
        if before is None or before.line != run.line or not _is_adjacent(before, run, max_gap):
            segments.append(Segment([run], run.left, run.right, run.baseline, run.style.size))
        else:
            segment = segments[-1]
            # The largest run determines the baseline: superscripts and subscripts do not.
            if run.style.size > segment.size:
                segment.size, segment.baseline = run.style.size, run.baseline
            segment.runs.append(run)
            segment.left, segment.right = min(segment.left, run.left), max(segment.right, run.right)
        before = run
    return segments


def _is_adjacent(before: Run, run: Run, max_gap: float) -> bool:
    size = max(before.style.size, run.style.size)
    gap = run.left - before.right
    if run.style.mono:
        max_gap = max(max_gap, MONO_GAP)
    if gap < -size and not run.text.isascii() and RIGHT_TO_LEFT.search(run.text):
        gap = before.left - run.right
    return -size < gap < max_gap * size and abs(before.baseline - run.baseline) < 0.6 * size


def rebuild_words(segments: list[Segment]) -> list[Segment]:
    """Rebuild words if each letter came as a line of its own."""
    letters = sum(segment.weight for segment in segments)
    if len(segments) < 8 or letters > 4 * len(segments):
        return segments
    return [segment for row in group_rows(segments) for segment in row]


def group_rows(segments: list[Segment]) -> list[list[Segment]]:
    """Group segments into rows, from top to bottom, each from left to right."""
    rows: list[list[Segment]] = []
    largest: list[Segment] = []
    for segment in sorted(segments, key=lambda segment: (-segment.baseline, segment.left)):
        for number in range(len(rows) - 1, max(len(rows) - 4, -1), -1):
            if _is_beside(largest[number], rows[number], segment):
                rows[number].append(segment)
                if segment.size > largest[number].size:
                    largest[number] = segment
                break
        else:
            rows.append([segment])
            largest.append(segment)
    return [_sort_row(row) if len(row) > 1 else row for row in rows]


def _sort_row(row: list[Segment]) -> list[Segment]:
    """Sort a row in reading direction and join segments that touch."""
    row.sort(key=lambda segment: segment.left)
    text = "".join([run.text for segment in row for run in segment.runs])
    if not text.isascii() and RIGHT_TO_LEFT.search(text):
        return row[::-1]
    segments = row[:1]
    for segment in row[1:]:
        last = segments[-1]
        max_gap = MONO_GAP if segment.runs[0].style.mono else LIKELY_GAP
        if segment.left - last.right >= max_gap * min(last.size, segment.size):
            segments.append(segment)
            continue
        heaviest = max(last, segment, key=lambda segment: segment.size)
        right = max(last.right, segment.right)
        segments[-1] = Segment(
            last.runs + segment.runs, last.left, right, heaviest.baseline, heaviest.size
        )
    return segments


def _is_beside(largest_in_row: Segment, row: list[Segment], segment: Segment) -> bool:
    size = max(largest_in_row.size, segment.size)
    # Superscripts and subscripts are smaller than the text on the line.
    same_size = min(largest_in_row.size, segment.size) > 0.8 * size
    if abs(largest_in_row.baseline - segment.baseline) > (0.35 if same_size else 0.6) * size:
        return False
    slack = 0.3 * min(largest_in_row.size, segment.size)
    # Checking the latest is enough, and a row may have thousands.
    return all(
        segment.left > other.right - slack or segment.right < other.left + slack
        for other in row[-40:]
    )


def is_source_code(rows: Sequence[Sequence[Segment]]) -> bool:
    """Return whether the rows are source code, which is aligned in columns by its nature. Column
    headers would not be monospaced; line numbers may be set in any font."""
    is_mono = []
    for row in rows:
        if len(row) > 1:
            runs = [run for segment in row for run in segment.runs]
            runs = runs[1:] if runs[0].text.isdigit() else runs
            mono = sum(len(run.text) for run in runs if run.style.mono)
            is_mono.append(mono >= CODE_SHARE * sum(len(run.text) for run in runs))
    return bool(is_mono) and is_mono[0] and sum(is_mono) >= CODE_SHARE * len(is_mono)


#: Dot leaders before a page number.
LEADERS = re.compile(r"\s*(?:[.·…_]\s?){5,}")
NUMBER = re.compile(r"\d{1,4}|[ivxlc]{1,6}")
#: Share of the characters whose style counts as that of the line.
STYLE_SHARE = 0.9
#: Columns of source code beyond this are not padded.
MAX_COLUMN = 200


@dataclass(slots=True)
class TextLine:
    text: str
    left: float
    right: float
    baseline: float
    size: float
    bold: bool
    italic: bool
    mono: bool
    #: Ends with a hyphenated word.
    hyphenated: bool
    mcid: int = -1
    #: Consists of several segments or ends with a separate number: a table row or a TOC entry.
    is_tabular: bool = False
    #: The number of bold characters at the start, if the rest is not bold.
    bold_prefix: int = 0
    #: Where the second of two segments begins: the definition after a term.
    definition_left: float | None = None


def build_line(row: Sequence[Segment]) -> TextLine:
    runs = [run for segment in row for run in segment.runs]
    length = sum(len(run.text) for run in runs)
    sizes: dict[float, int] = {}
    bold = italic = mono = plain_code = 0
    for run in runs:
        count, style = len(run.text), run.style
        sizes[style.size] = sizes.get(style.size, 0) + count
        bold += count * style.bold
        plain_code += count * (style.mono and not style.bold)
        italic += count * style.italic
        mono += count * style.mono
    if not runs[0].style.mono and runs[0].text.isdigit() and mono == length - len(runs[0].text) > 0:
        # A line number before source code.
        mono = length
    threshold = STYLE_SHARE * length
    is_code = len(row) > 1 and mono >= threshold
    text = _align_columns(row) if is_code else " ".join([segment.text for segment in row])
    is_tabular = len(row) > 2 or (len(row) > 1 and NUMBER.fullmatch(row[-1].text) is not None)
    if "..." in text or ". . ." in text or "…" in text or "___" in text:
        text, count = LEADERS.subn(" ", text)
        is_tabular = is_tabular or count > 0
    left, right = min(segment.left for segment in row), max(segment.right for segment in row)
    heaviest = max(row, key=lambda segment: segment.weight)
    mcid = max(runs, key=lambda run: len(run.text)).mcid
    if 2 * bold > length:
        # Code in a heading: monospaced fonts often lack a bold variant.
        bold += plain_code
    bold_prefix = 0
    if 0 < bold < threshold:
        bold_runs = list(takewhile(lambda run: run.style.bold, runs))
        bold_prefix = max(sum(len(run.text) + 1 for run in bold_runs) - 1, 0)
    size = max(sizes, key=lambda size: sizes[size])
    return TextLine(
        text, left, right, heaviest.baseline, size,
        bold >= threshold, italic >= threshold, mono >= threshold, runs[-1].hyphenated,
        mcid, is_tabular, bold_prefix, row[1].left if len(row) == 2 else None,
    )  # fmt: skip


def _align_columns(row: Sequence[Segment]) -> str:
    """Align the segments of a monospaced line in their columns."""
    runs = [run for segment in row for run in segment.runs]
    longest = max(runs, key=lambda run: len(run.text))
    # The last character is narrower than its cell.
    pitch = (longest.right - longest.left + 0.1 * longest.style.size) / len(longest.text)
    text = row[0].text
    for segment in row[1:]:
        column = min(round((segment.left - row[0].left) / pitch), MAX_COLUMN)
        text = f"{text} ".ljust(column) + segment.text
    return text
