"""The character error rate of recognised text."""


def character_error_rate(printed: str, recognised: str) -> float:
    """Substitutions, deletions and insertions per printed character, ignoring whitespace."""
    printed, recognised = " ".join(printed.split()), " ".join(recognised.split())
    row = list(range(len(recognised) + 1))
    for above, expected in enumerate(printed, 1):
        diagonal, row[0] = row[0], above
        for column, character in enumerate(recognised, 1):
            change = diagonal + (character != expected)
            diagonal, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, change)
    return row[-1] / len(printed)
