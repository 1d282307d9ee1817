"""Sound that may be heard only with a key: shops sell it, and to ffmpeg it is noise."""

import mmap

#: Sound of an unnamed form, by MPEG and by Apple; what form it has stands a little behind it.
_ENCRYPTED = (b"enca", b"drms")
_FORM = b"frma"
_WITHIN = 4096


def is_protected(path: str) -> bool:
    """Whether the sound of an MP4 is encrypted."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for mark in _ENCRYPTED:
            at = content.find(mark)
            while at != -1:
                # Four letters alone may stand anywhere by chance.
                if content.find(_FORM, at, at + _WITHIN) != -1:
                    return True
                at = content.find(mark, at + 1)
    return False
