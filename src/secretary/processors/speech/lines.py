"""Words with their times, put together to lines as they are read in subtitles."""

from collections.abc import Iterator, Sequence

from ...engines.speech import Said
from .pieces import Span

SENTENCE_ENDS = (".", "?", "!", "…", "\N{IDEOGRAPHIC FULL STOP}")
CLAUSE_ENDS = (*SENTENCE_ENDS, ",", ";", ":", "\N{IDEOGRAPHIC COMMA}")
CLOSING = "\"')]}”»"
#: Seconds: a line ends at a pause, with its sentence, and if that is long with a part of it.
PAUSE, LONG_LINE, LONGEST_LINE = 0.8, 7.0, 12.0
#: A shorter gap may be within a word.
BREATH = 0.35


def lines(words: Sequence[Said]) -> list[Said]:
    found: list[Said] = []
    line: list[Said] = []
    for word in words:
        if line and _ends(line, word):
            found.append(_line(line))
            line = []
        line.append(word)
    if line:
        found.append(_line(line))
    return [one for one in found if any(map(str.isalnum, one.text))]


def within(speech: Sequence[Span], words: Sequence[Said]) -> Iterator[Said]:
    """An engine lets words reach into silence; where there is speech is known better."""
    breaths = _breaths(speech)
    for word in words:
        breath = max(breaths, key=lambda breath: _overlap(breath, word))
        if _overlap(breath, word) <= 0:
            yield word
        else:
            yield word._replace(start=max(word.start, breath.start), end=min(word.end, breath.end))


def _ends(line: Sequence[Said], following: Said) -> bool:
    last = line[-1].text.rstrip(CLOSING)
    length = line[-1].end - line[0].start
    return (
        last.endswith(SENTENCE_ENDS)
        or following.start - line[-1].end >= PAUSE
        or (length >= LONG_LINE and last.endswith(CLAUSE_ENDS))
        or length >= LONGEST_LINE
    )


def _line(words: Sequence[Said]) -> Said:
    text = "".join(word.text for word in words).strip()
    return Said(round(words[0].start, 2), round(max(word.end for word in words), 2), text)


def _breaths(speech: Sequence[Span]) -> list[Span]:
    breaths: list[Span] = []
    for span in speech:
        if breaths and span.start - breaths[-1].end < BREATH:
            breaths[-1] = Span(breaths[-1].start, span.end)
        else:
            breaths.append(span)
    return breaths


def _overlap(span: Span, word: Said) -> float:
    return min(span.end, word.end) - max(span.start, word.start)
