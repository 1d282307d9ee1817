"""Terms with their meanings beside them: a list, though it stands in two columns."""

from collections.abc import Sequence
from itertools import pairwise

from .rows import Piece
from .tables import Cells

#: Of the terms: so many are set in another way than what they mean.
SET_APART = 0.8
#: Words of a meaning, on the average: values have fewer.
FEWEST_WORDS = 3
#: Characters of a term on the average, at most, where it is not set apart.
SHORT = 12


def is_term_list(lines: Sequence[Cells]) -> bool:
    if len(lines[0]) != 2:
        return False
    if any(_hangs(above, below) for above, below in pairwise(lines)):
        return True
    terms = [term for term, _ in lines if term]
    words = sum(len(piece.text.split()) for _, meaning in lines for piece in meaning)
    if not terms or words < FEWEST_WORDS * len(terms):
        return False
    if not _is_head(lines[0]) and sum(len(term[0].text) for term in terms) < SHORT * len(terms):
        return True
    # The names of columns are set alike, and not as what stands below them.
    apart = [_is_set_apart(term, meaning) for term, meaning in lines if term and meaning]
    return bool(apart) and apart[0] and sum(apart) >= SET_APART * len(apart)


def _is_head(line: Cells) -> bool:
    return all(run.style.bold for cell in line for piece in cell for run in piece.runs)


def _hangs(above: Cells, below: Cells) -> bool:
    """Too long to stand beside it, a term stands above what it means: cells are never set so."""
    (term, beside), (next_term, meaning) = above, below
    if beside or next_term or not term or not meaning:
        return False
    return term[0].base - meaning[0].base < 1.6 * term[0].size


def _is_set_apart(term: Sequence[Piece], meaning: Sequence[Piece]) -> bool:
    if term[0].text.startswith(("-", "\u2212", "\u2013")) and len(term[0].text) > 1:
        # An option of a command.
        return not term[0].text[1:].replace(".", "").replace(",", "").isdigit()
    first, second = term[0].runs[0].style, meaning[0].runs[0].style
    return (first.bold, first.mono) > (second.bold, second.mono) and not second.bold
