"""Files in Microsoft's compound format: old binary documents, and encrypted new ones."""

from ...errors import FileEncrypted, UnsupportedFile

#: The streams that tell, in the order in which they are looked for.
_STREAMS = {"WordDocument": "doc", "PowerPoint Document": "ppt", "Workbook": "xls", "Book": "xls"}
#: Streams of new documents that were encrypted as a whole.
_ENCRYPTED = ("EncryptedPackage", "EncryptionInfo")
_SECTOR = 512
_ENTRY = 128


def ole_kind(path: str) -> str:
    """`doc`, `xls` or `ppt`; what is encrypted or something else is refused."""
    names = _names(path)
    if any(name in names for name in _ENCRYPTED):
        raise FileEncrypted("The document is protected by a password")
    kind = next((kind for name, kind in _STREAMS.items() if name in names), None)
    if kind is None:
        raise UnsupportedFile("The file is of an old Microsoft format that is not read here")
    return kind


def refuse_ole(path: str) -> None:
    kind = ole_kind(path)
    raise UnsupportedFile(f"The old format .{kind} is read by way of a PDF only: use via_pdf")


def _names(path: str) -> set[str]:
    """Entries of directories, found by their form: it needs no walk along chains of sectors."""
    names: set[str] = set()
    with open(path, "rb") as file:
        while sector := file.read(_SECTOR):
            for start in range(0, len(sector), _ENTRY):
                entry = sector[start : start + _ENTRY]
                size = int.from_bytes(entry[64:66], "little")
                # The size counts two bytes for the end; the kind of an entry is 1, 2 or 5.
                if 4 <= size <= 64 and not size % 2 and entry[66:67] in (b"\x01", b"\x02", b"\x05"):
                    names.add(entry[: size - 2].decode("utf-16-le", "replace"))
    return names
