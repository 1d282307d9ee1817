"""Items of lists, told by their marks."""

import re

#: What stands before an item; symbol fonts put theirs into the private use area.
BULLETS = "•◦▪▫‣\u2043·∙●○■□◆◇▶►➢➤✓✔❖❑\uf0b7\uf0a7\uf0d8\uf076\uf0fc\uf0a8\uf02d\uf06e\uf071"
BULLET = re.compile(rf"(?:[{BULLETS}]|[-\u2013\u2014*o](?=\s))\s*")
#: Letters need their bracket: a capital with a full stop is the initial of a name.
NUMBER = re.compile(
    r"(?:\(?(\d{1,3})[.)]|\((?:[a-zA-Z]|[ivx]{1,5})\)|(?:[a-z]|[ivx]{1,5})\)|[a-z]\.)\s+(?=\S)"
)


def is_bullet(text: str) -> bool:
    """A mark, and nothing else."""
    match = BULLET.match(f"{text} ")
    return match is not None and match.end() >= len(text)


def item_mark(text: str) -> tuple[str, str] | None:
    """The mark as Markdown has it, and the text after it."""
    match = BULLET.match(text)
    if match and match.end() < len(text):
        return "-", text[match.end() :]
    match = NUMBER.match(text)
    if match is None:
        return None
    number, rest = match.group(1), text[match.end() :]
    if number:
        return f"{int(number)}.", rest
    return f"- {match.group(0).strip()}", rest
