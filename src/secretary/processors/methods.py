"""The ways to read a PDF: which of the text layer, OCR and a vision model, and which pictures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    native: bool = False
    ocr: bool = False
    llm: bool = False
    preview: bool = False
    #: Per page: OCR only where the text layer is of no use.
    choose: bool = False


METHODS: dict[str, Method] = {
    "native": Method(native=True),
    "ocr": Method(ocr=True),
    "both": Method(native=True, ocr=True),
    "preview": Method(preview=True),
    "preview_and_native": Method(preview=True, native=True),
    "llm": Method(llm=True),
    "llm_and_native": Method(llm=True, native=True),
    "llm_and_ocr": Method(llm=True, ocr=True),
    "auto": Method(native=True, ocr=True, choose=True),
}
#: Other names for them.
ALIASES = {"tesseract_ocr": "ocr"}
#: Of reading pictures: part of a cache key, changed when they are prepared or put together anew.
PROCEDURE = "1"
