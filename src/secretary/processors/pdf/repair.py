"""PDFs that PDFium does not open, mended by QPDF where that can be done."""

import io
from pathlib import Path

from ...errors import FileCorrupt, FileEncrypted

#: Bytes: the mended file is held in memory, beside what QPDF holds of the torn one.
LARGEST = 200 * 1024 * 1024

DAMAGED = "The PDF is damaged and cannot be opened"


def repaired_pdf(path: str, password: str | None) -> bytes:
    # Hardly ever needed, and it takes a while to load.
    import pikepdf

    if Path(path).stat().st_size > LARGEST:
        raise FileCorrupt(DAMAGED)
    mended = io.BytesIO()
    try:
        with pikepdf.open(path, password=password or "", suppress_warnings=True) as document:
            if not len(document.pages):
                raise FileCorrupt(DAMAGED)
            document.save(mended, fix_metadata_version=False)
    except pikepdf.PasswordError:
        raise FileEncrypted("The PDF needs a password, or another one") from None
    except (pikepdf.PdfError, ValueError, RuntimeError):
        raise FileCorrupt(DAMAGED) from None
    return mended.getvalue()
