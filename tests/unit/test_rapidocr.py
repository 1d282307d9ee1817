"""RapidOCR by itself, if it is installed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from PIL import Image

from secretary.core.errors import EngineUnavailable
from secretary.documents.ocr.engines import open_engine
from secretary.documents.ocr.rapidocr import DETECTION_MODEL, RECOGNITION_MODEL, RapidOcr
from secretary.documents.ocr.recognition import recognise

from ..error_rate import character_error_rate
from ..rendered_pages import ENGLISH, GERMAN, Print, page, sheet

#: Required in CI.
IS_INSTALLED = "CI" in os.environ or all(
    importlib.util.find_spec(name) for name in ("rapidocr", "onnxruntime")
)
needs_it = pytest.mark.skipif(not IS_INSTALLED, reason="pip install 'secretary[rapidocr]'")


def read(picture: Image.Image, languages: str = "eng") -> list[str]:
    engine = open_engine("rapidocr")
    return [line.text for line in engine.read(picture, languages=languages, dpi=150)]


@needs_it
def test_lines_come_with_their_place_and_confidence() -> None:
    lines = open_engine("rapidocr").read(page(ENGLISH[:2]), languages="eng", dpi=150)
    assert [line.text for line in lines] == ENGLISH[:2]
    assert all(line.confidence > 90 for line in lines)
    assert lines[0].baseline < lines[1].box[1] + 10
    assert 90 < lines[0].box[0] < 115
    assert [word.text for word in lines[0].words] == ENGLISH[0].split()


@needs_it
def test_umlauts_are_read() -> None:
    assert read(page(GERMAN), "deu") == GERMAN


@needs_it
def test_a_single_word_is_found() -> None:
    word = sheet([Print(60, 60, "Lieferschein", 14)], width=220, height=100)
    assert read(word, "deu") == ["Lieferschein"]


@needs_it
@pytest.mark.parametrize("size", [(1, 1), (3, 500), (500, 500)])
def test_where_nothing_is_nothing_is_found(size: tuple[int, int]) -> None:
    assert read(Image.new("L", size, 255)) == []


@needs_it
def test_columns_do_not_mix() -> None:
    left, right = [line[:28].strip() for line in ENGLISH], [line[:28].strip() for line in GERMAN]
    prints = [Print(30, 40 + 16 * i, text) for i, text in enumerate(left)]
    prints += [Print(230, 43 + 15 * i, text) for i, text in enumerate(right)]
    assert read(sheet(prints, width=420, height=180), "deu+eng") == left + right


@needs_it
def test_a_photo_from_the_side_is_read() -> None:
    picture = photographed(page(GERMAN[:4]))
    recognised = recognise(picture, engine=open_engine("rapidocr"), languages="deu", dpi=None)
    assert character_error_rate(" ".join(GERMAN[:4]), recognised.text) < 0.01


@needs_it
def test_a_page_on_its_head_is_turned() -> None:
    picture = page(ENGLISH[:2]).rotate(180)
    recognised = recognise(picture, engine=open_engine("rapidocr"), languages="eng", dpi=150)
    assert recognised.text.splitlines() == ENGLISH[:2]
    assert recognised.rotation == 180


@needs_it
def test_a_picture_that_is_too_large_is_read_smaller() -> None:
    large = page(ENGLISH[:1], dpi=500)
    (line,) = open_engine("rapidocr").read(large, languages="eng", dpi=500)
    assert line.text == ENGLISH[0]
    assert 325 < line.box[0] < 355


@needs_it
def test_a_language_that_it_does_not_know_is_named() -> None:
    with pytest.raises(EngineUnavailable, match="does not read the language rus; it reads: dan"):
        read(page(ENGLISH[:1]), "eng+rus")


@needs_it
def test_a_missing_model_is_named_and_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=DETECTION_MODEL):
        RapidOcr(tmp_path).languages()


@needs_it
def test_damaged_models_are_no_text(tmp_path: Path) -> None:
    for name in (DETECTION_MODEL, RECOGNITION_MODEL):
        (tmp_path / name).write_bytes(b"nothing" * 100)
    with pytest.raises(EngineUnavailable, match="damaged"):
        RapidOcr(tmp_path).read(page(ENGLISH[:1]), languages="eng", dpi=None)


@needs_it
def test_its_version_includes_its_models(tmp_path: Path) -> None:
    for name in (DETECTION_MODEL, RECOGNITION_MODEL):
        (tmp_path / name).write_bytes(b"another")
    other, usual = RapidOcr(tmp_path).version, open_engine("rapidocr").version
    assert other != usual
    assert other.rpartition("-")[0] == usual.rpartition("-")[0]


@needs_it
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_it_starts_no_threads_and_sends_no_telemetry(tmp_path: Path) -> None:
    output = run(
        "os.environ['OPENBLAS_NUM_THREADS'] = '1'  # those that NumPy starts, and nobody uses\n"
        "asked = []\n"
        "outside = ('socket.connect', 'socket.getaddrinfo', 'socket.sendto', 'urllib.Request')\n"
        "sys.addaudithook(lambda name, _: name in outside and asked.append(name))\n"
        "from PIL import Image\n"
        "from secretary.documents.ocr.engines import open_engine\n"
        "open_engine('rapidocr').version\n"
        "print(sorted({'rapidocr', 'onnxruntime', 'numpy'} & set(sys.modules)))\n"
        "picture = Image.open(sys.argv[1])\n"
        "print(len(open_engine('rapidocr').read(picture, languages='eng', dpi=150)))\n"
        "print(len(os.listdir('/proc/self/task')), asked)\n",
        page(ENGLISH[:1]),
        home=tmp_path,
    )
    assert output.splitlines() == ["[]", "1", "1 []"]
    assert list(tmp_path.iterdir()) == []


def test_without_its_package_it_says_what_to_install(tmp_path: Path) -> None:
    output = run(
        "import importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'rapidocr' else found(name)\n"
        "from PIL import Image\n"
        "from secretary.documents.ocr.engines import open_engine\n"
        "from secretary.core.errors import EngineUnavailable\n"
        "picture = Image.open(sys.argv[1])\n"
        "for use in (lambda engine: engine.languages(), lambda engine: engine.version,\n"
        "            lambda engine: engine.read(picture, languages='eng', dpi=None)):\n"
        "    try:\n"
        "        use(open_engine('rapidocr'))\n"
        "    except EngineUnavailable as error:\n"
        "        print(error.message)\n",
        Image.new("L", (9, 9)),
        home=tmp_path,
    )
    assert [line[:76] for line in output.splitlines()] == [
        "RapidOCR is not installed. Install it: pip install 'secretary[rapidocr]', or"
    ] * 3


def photographed(picture: Image.Image) -> Image.Image:
    """On a dark table, seen at an angle, lit from one side, with camera noise."""
    width, height = picture.size
    corners = (-60, -40, 0, height + 90, width + 60, height + 30, width + 20, -10)
    seen = picture.transform(
        (width, height),
        Image.Transform.QUAD,
        corners,
        Image.Resampling.BICUBIC,
        fillcolor=70,
    )
    light = numpy.linspace(0.95, 0.4, width, dtype=numpy.float32)
    noise = numpy.random.default_rng(7).normal(0, 8, (height, width))
    values = numpy.asarray(seen, numpy.float32) * light + noise
    return Image.fromarray(numpy.clip(values, 0, 255).astype(numpy.uint8))


def run(program: str, picture: Image.Image, *, home: Path) -> str:
    """What the program prints about the image, in a fresh process."""
    file = home.with_suffix(".png")
    picture.save(file)
    start = f"import os, sys; sys.path[:] = {sys.path!r}\n"
    result = subprocess.run(
        [sys.executable, "-c", start + program, str(file)],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not result.returncode, result.stderr
    return result.stdout.strip()
