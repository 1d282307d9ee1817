"""Pages assembled into a document."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from secretary.core.errors import FileCorrupt
from secretary.documents import assembly as module
from secretary.documents.assembly import Assembly, assemble
from secretary.documents.pages import Page, PageStore


@pytest.fixture
def page_store(tmp_path: Path) -> PageStore:
    for name in ("kept", "shown", "other"):
        (tmp_path / name).mkdir()
    page_store = PageStore(str(tmp_path / "kept"), str(tmp_path / "shown"))
    page_store.write("image_001.jpg", b"picture")
    page_store.write("preview_001.jpg", b"small")
    pictures = ("image_001.jpg", "preview_001.jpg")
    page_store.save(Page(number=1, text="One", markdown="# One", pictures=pictures))
    page_store.save(Page(number=2, text="Two", markdown="Two", method="ocr", reason="no text"))
    return page_store


def put_together(
    page_store: PageStore, numbers: range = range(1, 3), **more: Any
) -> module.AssembledDocument:
    return assemble(
        Assembly(page_store=page_store, numbers=numbers, archives={"images.zip": "image_"}, **more)
    )


def shown(page_store: PageStore, name: str) -> bytes:
    return Path(page_store.job_directory, name).read_bytes()


def test_texts_are_joined_in_page_order(page_store: PageStore) -> None:
    done = put_together(page_store)
    assert shown(page_store, "document.txt") == b"--- Seite 1 ---\nOne\n--- Seite 2 ---\nTwo\n"
    assert shown(page_store, "document.md") == b"# One\n\nTwo\n\n"
    assert done.page_texts == ["page_001.txt", "page_002.txt"]
    assert done.pictures == ["image_001.jpg", "preview_001.jpg"]
    assert done.has_text


def test_long_results_are_stored_in_a_file(page_store: PageStore) -> None:
    put_together(page_store)
    assert json.loads(shown(page_store, "texts.json")) == {
        "extracted_text": "--- Seite 1 ---\nOne\n--- Seite 2 ---\nTwo",
        "markdown_content": "# One\n\nTwo\n",
        "metadata": {
            "text_contents": [
                {"page": 1, "content": "One", "method": "native"},
                {"page": 2, "content": "Two", "method": "ocr", "reason": "no text"},
            ]
        },
    }


def test_each_page_has_its_markdown(page_store: PageStore) -> None:
    put_together(page_store)
    assert json.loads(shown(page_store, "pages.json")) == [
        {"page": 1, "markdown": "# One"},
        {"page": 2, "markdown": "Two"},
    ]


def test_texts_too_long_for_the_results_are_only_in_the_files(page_store: PageStore) -> None:
    long = "x" * (module.MAX_RESULTS_BYTES // 2 + 1)
    for number in (3, 4):
        page_store.save(Page(number=number, text=long, markdown=long))
    put_together(page_store, range(1, 5))
    results = json.loads(shown(page_store, "texts.json"))
    assert "extracted_text" not in results
    assert [page["content"] for page in results["metadata"]["text_contents"]] == [None] * 4
    assert len(shown(page_store, "document.md")) > module.MAX_RESULTS_BYTES
    assert not Path(page_store.job_directory, "pages.json").exists()


def test_an_archive_contains_the_images_with_its_prefix(page_store: PageStore) -> None:
    zips = {"images.zip": "image_", "previews.zip": "preview_"}
    assemble(Assembly(page_store=page_store, numbers=range(1, 3), archives=zips))
    for name, member in (("images.zip", "image_001.jpg"), ("previews.zip", "preview_001.jpg")):
        with zipfile.ZipFile(Path(page_store.job_directory, name)) as archive:
            assert archive.namelist() == [member]


def test_a_document_of_images_has_no_text(page_store: PageStore) -> None:
    page_store.save(Page(number=3, text="", markdown="", pictures=("image_001.jpg",)))
    done = put_together(page_store, range(3, 4))
    assert not done.has_text
    assert not Path(page_store.job_directory, "document.md").exists()


@pytest.mark.parametrize(("is_print", "remaining"), [(True, 0), (False, 5)])
def test_headers_are_stripped_from_printed_pages(
    page_store: PageStore, is_print: bool, remaining: int
) -> None:
    for number, name in enumerate(("one", "two", "three", "four", "five"), 1):
        text = f"The Times\n\nThis is what page {name} has to say."
        page_store.save(Page(number=number, text=text, markdown=text))
    put_together(page_store, range(1, 6), is_print=is_print)
    assert shown(page_store, "document.md").count(b"The Times") == remaining
    assert shown(page_store, "document.txt").count(b"The Times") == 5


def test_an_assembled_document_is_reused(page_store: PageStore, tmp_path: Path) -> None:
    first = put_together(page_store)
    for records in Path(page_store.directory).glob("records-*"):
        records.unlink()  # they are not needed
    other = PageStore(page_store.directory, str(tmp_path / "other"))
    assert put_together(other, may_reuse=True) == first
    assert sorted(p.name for p in (tmp_path / "other").iterdir()) == [
        "document.md", "document.txt", "image_001.jpg", "images.zip", "page_001.txt",
        "page_002.txt", "pages.json", "preview_001.jpg", "texts.json",
    ]  # fmt: skip


def test_another_page_range_is_assembled_separately(page_store: PageStore) -> None:
    put_together(page_store)
    put_together(page_store, range(2, 3), may_reuse=True)
    assert shown(page_store, "document.md") == b"Two\n\n"


def test_a_missing_page_is_an_error(page_store: PageStore) -> None:
    with pytest.raises(FileCorrupt, match="page 3"):
        put_together(page_store, range(1, 4))
