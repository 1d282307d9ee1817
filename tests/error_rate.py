"""How far recognised text is from what was printed."""


def character_error_rate(printed: str, found: str) -> float:
    """Changes, losses and additions for each printed character; kinds of space do not matter."""
    printed, found = " ".join(printed.split()), " ".join(found.split())
    row = list(range(len(found) + 1))
    for above, expected in enumerate(printed, 1):
        diagonal, row[0] = row[0], above
        for place, character in enumerate(found, 1):
            change = diagonal + (character != expected)
            diagonal, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, change)
    return row[-1] / len(printed)
