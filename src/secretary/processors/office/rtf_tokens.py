"""RTF cut into its tokens."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import FileCorrupt

_TOKEN = re.compile(
    rb"\\(?P<word>[A-Za-z]{1,40})(?P<number>-?\d{1,10})?[ ]?"
    rb"|\\'(?P<hex>[0-9A-Fa-f]{2})|\\(?P<symbol>[^A-Za-z])"
    rb"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n\0]+)|[\r\n\0]+|\\"
)


class Token(NamedTuple):
    """`kind` is `word`, `symbol`, `hex`, `text`, `binary` or a brace."""

    kind: str
    value: str = ""
    number: int | None = None
    data: bytes = b""


def tokens(data: bytes) -> Iterator[Token]:
    """Up to the end of the outermost group; a file that ends before is not whole."""
    at = depth = 0
    while at < len(data):
        found = _TOKEN.match(data, at)
        if found is None:
            at += 1
            continue
        at = found.end()
        kind = found.lastgroup
        if kind == "brace":
            brace = found["brace"].decode()
            depth += 1 if brace == "{" else -1
            yield Token(brace)
            if not depth:
                return
        elif found["word"] is not None:
            word = found["word"].decode()
            number = int(found["number"]) if found["number"] is not None else None
            if word == "bin":
                size = max(number or 0, 0)
                yield Token("binary", data=data[at : at + size])
                at += size
            else:
                yield Token("word", word, number)
        elif kind == "hex":
            yield Token("hex", data=bytes([int(found["hex"], 16)]))
        elif kind == "symbol":
            yield Token("symbol", found["symbol"].decode("latin-1"))
        elif kind == "text":
            yield Token("text", data=found["text"])
    raise FileCorrupt("The RTF file ends before its end")
