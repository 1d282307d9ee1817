"""File types by content, for honest and for misleading files."""

import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secretary.core.files import HEAD, MAX_CONTENTS, detect_file_type

from ..minimal_files import MP4, PNG, WAV, office, open_document, pdf, zipped

ODF = "application/vnd.oasis.opendocument."
FRAME = b"\xff\xfb\x90\x64" + bytes(100)
#: Whole frames: 128 kbit/s at 44.1 kHz.
FRAMES = (b"\xff\xfb\x90\x64" + bytes(413)) * 3
ADTS = b"\xff\xf1\x50\x80\x0d\x00\xfc" + bytes(0x68 - 7)

KINDS = {
    "pdf": [pdf("Hello"), b"%!PS junk before it\r\n" + pdf("Hello")],
    "docx": [office("word")],
    "xlsx": [office("xl")],
    "pptx": [office("ppt")],
    "odt": [open_document(f"{ODF}text"), open_document(f"{ODF}text-template")],
    "ods": [open_document(f"{ODF}spreadsheet")],
    "odp": [open_document(f"{ODF}presentation")],
    "epub": [open_document("application/epub+zip")],
    "rtf": [b"{\\rtf1\\ansi Hello}"],
    "ole": [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)],
    "html": [
        b"<!DOCTYPE html><p>Hello",
        b"\xef\xbb\xbf\n <HTML>",
        b'<?xml version="1.0"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml">',
    ],
    "text": [
        b"Hello",
        "Grüße".encode(),
        "Grüße".encode("cp1252"),
        "\ufeffHello".encode("utf-16-le"),
        "\ufeffHello".encode("utf-16-be"),
        ("x" * (HEAD - 1) + "ü").encode(),
        b"BMW builds cars",
        b"FORMULAS are texts",
        b"RIFFs too, whatever they say",
        b"ID3 is a tag",
        b"GGGG" * 1000,
        b"the moov is full",
    ],
    "png": [PNG],
    "jpeg": [b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"],
    "gif": [b"GIF89a\x01\x00\x01\x00", b"GIF87a\x01\x00\x01\x00"],
    "tiff": [b"II*\x00\x08\x00\x00\x00", b"MM\x00*\x00\x00\x00\x08"],
    "bmp": [b"BM\x3a\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00"],
    "webp": [b"RIFF\x1a\x00\x00\x00WEBPVP8L"],
    "heif": [b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00"],
    "jp2": [b"\x00\x00\x00\x0cjP  \r\n\x87\n"],
    "mp3": [
        b"ID3\x04\x00\x00\x00\x00\x00\x00",
        FRAME,
        FRAMES,
        b"ID3\x03\x00\x00\x00\x00\x00\x05title" + FRAMES,
        b"the end of another frame" + FRAMES,
    ],
    "wav": [WAV, b"RF64" + WAV[4:], b"BW64" + WAV[4:]],
    "w64": [b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00" + bytes(40)],
    "caf": [b"caff\x00\x01\x00\x00desc"],
    "au": [b".snd\x00\x00\x00\x18" + bytes(40)],
    "aiff": [b"FORM\x00\x00\x00\x00AIFFCOMM"],
    "flac": [b"fLaC\x00\x00\x00\x22", b"ID3\x04" + bytes(6) + b"fLaC\x00\x00\x00\x22"],
    "ogg": [b"OggS\x00\x02"],
    "aac": [
        b"\xff\xf1\x50\x80",
        b"\xff\xf9\x50\x80",
        ADTS * 3,
        b"ID3\x04" + bytes(6) + ADTS * 3,
        b"\xff\x00" + ADTS * 3,
    ],
    "amr": [b"#!AMR\n"],
    "mp4": [MP4, b"\x00\x00\x00\x08wide\x00\x01\x00\x00mdat", b"\x00\x00\x10\x00moov"],
    "webm": [b"\x1aE\xdf\xa3\x9fB\x86"],
    "avi": [b"RIFF\x00\x00\x00\x00AVI LIST"],
    "mpegts": [
        (b"G" + bytes(187)) * 3,
        b"\x00\x00\x00\x01" + (b"G" + bytes(191)) * 4,
        bytes(100) + (b"G" + bytes(187)) * 4,
    ],
    "mpeg": [b"\x00\x00\x01\xba\x44"],
    "flv": [b"FLV\x01\x05"],
    "asf": [b"0&\xb2u\x8ef\xcf\x11\xa6\xd9"],
}


def kind(tmp_path: Path, content: bytes, name: str = "file") -> str | None:
    path = tmp_path / name
    path.write_bytes(content)
    return detect_file_type(path)


@pytest.mark.parametrize(
    ("expected", "content"), [(kind, each) for kind, all_ in KINDS.items() for each in all_]
)
def test_a_file_is_what_its_content_says(tmp_path: Path, expected: str, content: bytes) -> None:
    assert kind(tmp_path, content) == expected


@pytest.mark.parametrize("content", [FRAMES[:400] + bytes(800), ADTS + bytes(4000)])
def test_one_frame_makes_no_sound_of_a_file(tmp_path: Path, content: bytes) -> None:
    assert kind(tmp_path, content) is None


def test_a_zip_that_is_called_pdf_is_none(tmp_path: Path) -> None:
    assert kind(tmp_path, zipped({"a.txt": b"x"}), "a.pdf") is None


def test_a_document_that_is_called_pdf_is_a_document(tmp_path: Path) -> None:
    assert kind(tmp_path, office("word"), "a.pdf") == "docx"


@pytest.mark.parametrize("content", [b"", b"\x00", bytes(5000), b"PK\x03\x04", b"\x01\x02\x03"])
def test_what_says_nothing_is_of_no_kind(tmp_path: Path, content: bytes) -> None:
    assert kind(tmp_path, content) is None


def test_a_document_that_was_cut_off_is_of_no_kind(tmp_path: Path) -> None:
    whole = office("word")
    assert {kind(tmp_path, whole[:size]) for size in range(4, len(whole))} == {None}


class TestHostileZips:
    def test_a_compressed_type_is_not_unpacked(self, tmp_path: Path) -> None:
        members = {"mimetype": b"application/epub+zip"}
        assert kind(tmp_path, zipped(members, zipfile.ZIP_DEFLATED)) is None

    def test_one_that_is_no_zip_after_its_beginning(self, tmp_path: Path) -> None:
        broken = bytearray(open_document("application/epub+zip"))
        broken[35:50] = b"\xff" * 15
        assert kind(tmp_path, bytes(broken)) is None

    @pytest.mark.parametrize("hidden", [False, True])
    def test_a_huge_table_of_contents_is_not_read(self, tmp_path: Path, hidden: bool) -> None:
        """Hidden: the field for the table's size contains the signature of a record, so that
        searching for the last signature finds a record without one."""
        size = int.from_bytes(b"PK\x05\x06", "little") if hidden else MAX_CONTENTS + 1
        end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, size, 0, 0)
        assert size > MAX_CONTENTS
        assert _memory_of_kind(_sparse(tmp_path, size, end)) is None

    def test_nor_one_that_only_the_64_bit_record_tells_of(self, tmp_path: Path) -> None:
        size = 100_000_000
        record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, size, 0)
        locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, size, 1)
        end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, 46, 0, 0)
        assert _memory_of_kind(_sparse(tmp_path, size, record + locator + end)) is None


def _sparse(tmp_path: Path, size: int, end: bytes) -> Path:
    path = tmp_path / "bomb"
    with path.open("wb") as file:
        file.write(b"PK\x03\x04")
        file.seek(size)
        file.write(end)
    return path


def _memory_of_kind(path: Path) -> str | None:
    """The detected type; detection must not take the memory that the file asks for."""
    tracemalloc.start()
    try:
        detected = detect_file_type(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        return detected
    finally:
        tracemalloc.stop()


@settings(max_examples=200, deadline=None)
@given(
    beginning=st.sampled_from([content[:64] for all_ in KINDS.values() for content in all_]),
    rest=st.binary(max_size=200),
)
def test_whatever_comes_it_answers(
    tmp_path_factory: pytest.TempPathFactory, beginning: bytes, rest: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(beginning + rest)
    assert detect_file_type(path) in {None, *KINDS}


@settings(max_examples=200, deadline=None)
@given(
    offset=st.integers(0, 300), value=st.integers(0, 255), which=st.sampled_from(["epub", "odt"])
)
def test_a_zip_with_a_wrong_byte_is_answered_too(
    tmp_path_factory: pytest.TempPathFactory, offset: int, value: int, which: str
) -> None:
    content = bytearray(KINDS[which][0])
    content[offset % len(content)] = value
    path = tmp_path_factory.getbasetemp() / "torn"
    path.write_bytes(content)
    assert detect_file_type(path) in {None, *KINDS}
