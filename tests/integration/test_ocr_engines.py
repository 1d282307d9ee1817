"""The configured OCR engine, through the whole service."""

import importlib.util
import os
from pathlib import Path

import pytest

from ..rendered_pages import ENGLISH, page
from ..sample_documents import as_file
from ..service_fixture import running_service

ROUTE = "/api/imageocr/process"
RAPID = {"ocr_engine": "rapidocr"}
#: Required in CI.
IS_INSTALLED = "CI" in os.environ or all(
    importlib.util.find_spec(name) for name in ("rapidocr", "onnxruntime")
)


@pytest.fixture
def picture() -> bytes:
    return as_file(page(ENGLISH[:2]), "PNG")


@pytest.mark.skipif(not IS_INSTALLED, reason="pip install 'secretary[rapidocr]'")
async def test_what_one_engine_has_read_is_not_passed_off_as_anothers(
    tmp_path: Path, picture: bytes
) -> None:
    async with running_service(tmp_path) as service:
        await service.read(ROUTE, picture, "a.png", ocr_language="eng")
    async with running_service(tmp_path, documents=RAPID) as service:
        results = await service.read(ROUTE, picture, "a.png", ocr_language="eng")
        again = await service.read(ROUTE, picture, "b.png", ocr_language="eng")
    assert results["metadata"]["text_contents"][0]["content"].splitlines() == ENGLISH[:2]
    assert (results["is_from_cache"], again["is_from_cache"]) == (False, True)


@pytest.mark.skipif(IS_INSTALLED, reason="RapidOCR is installed")
async def test_an_engine_that_is_not_installed_fails_the_job_and_says_how_to_get_it(
    tmp_path: Path, picture: bytes
) -> None:
    async with running_service(tmp_path) as service:
        await service.read(ROUTE, picture, "a.png", ocr_language="eng")
    async with running_service(tmp_path, documents=RAPID) as service:
        error = await service.refused(ROUTE, picture, "a.png", ocr_language="eng")
    assert error["code"] == "ENGINE_UNAVAILABLE"
    assert "pip install 'secretary[rapidocr]'" in error["message"]
