"""How far recognised text is from what was set."""

import unicodedata


def character_error_rate(truth: str, given: str) -> float:
    """Characters to change, insert or delete, for each one set; line breaks count as spaces."""
    expected, seen = _bare(truth), _bare(given)
    return _distance(expected, seen) / max(len(expected), 1)


def _bare(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _distance(first: str, second: str) -> int:
    """Levenshtein's, with a bit for each character of the first text (Myers, 1999)."""
    if not first:
        return len(second)
    places: dict[str, int] = {}
    for place, character in enumerate(first):
        places[character] = places.get(character, 0) | 1 << place
    everything, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    more, less, distance = everything, 0, len(first)
    for character in second:
        same = places.get(character, 0)
        down = same | less
        across = (((same & more) + more) ^ more) | same
        rise, fall = less | (~(across | more) & everything), more & across
        distance += bool(rise & last) - bool(fall & last)
        rise, fall = (rise << 1 | 1) & everything, (fall << 1) & everything
        more, less = fall | (~(down | rise) & everything), rise & down
    return distance
