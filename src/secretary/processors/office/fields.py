"""Instructions of fields in Word documents and RTF."""

import re

_HYPERLINK = re.compile(r'\s*HYPERLINK\s+(?:"([^"]*)"|(?!\\)(\S+))', re.IGNORECASE)
_BUTTON = re.compile(r"\s*MACROBUTTON\s+\S+\s+(.+)", re.IGNORECASE | re.DOTALL)


def link_of(instruction: str) -> str | None:
    found = _HYPERLINK.match(instruction)
    return (found[1] or found[2]) if found else None


def text_of(instruction: str) -> str | None:
    """Of a field that has no result because it shows its instruction: `[click here]`."""
    found = _BUTTON.match(instruction)
    return found[1].strip() if found else None
