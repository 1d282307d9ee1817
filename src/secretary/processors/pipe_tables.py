"""Tables as Markdown has them: cells between pipes."""

from collections.abc import Sequence


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the head, shorter ones are filled up; pipes in cells are escaped already."""
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    lines.insert(1, f"|{' --- |' * width}")
    return "\n".join(lines)
