"""The page store and its append log."""

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from secretary.documents.pages import Page, PageStore, load_pages
from secretary.storage import append_log
from secretary.storage.append_log import RecordRef


@pytest.fixture
def page_store(tmp_path: Path) -> PageStore:
    for name in ("kept", "shown"):
        (tmp_path / name).mkdir()
    return PageStore(str(tmp_path / "kept"), str(tmp_path / "shown"))


def page(number: int, text: str = "Hello") -> Page:
    return Page(
        number=number,
        text=text,
        markdown=f"# {text}",
        method="ocr",
        reason="a scan",
        texts={"ocr": text},
        pictures=("image_001.jpg",) if number == 1 else (),
        facts={"ocr_confidence": 93},
    )


def load(ref: RecordRef) -> Page:
    return next(load_pages([ref]))


def test_a_saved_page_can_be_loaded(page_store: PageStore) -> None:
    page_store.save(page(7))
    refs = page_store.find_pages()
    assert list(refs) == [7]
    assert load(refs[7]) == page(7)


def test_the_text_of_a_saved_page_is_linked_at_once(page_store: PageStore) -> None:
    page_store.save(page(7, "Grüße"))
    assert Path(page_store.job_directory, "page_007.txt").read_text() == "Grüße"


def test_a_page_without_text_has_no_text_file(page_store: PageStore) -> None:
    page_store.save(page(7, ""))
    assert os.listdir(page_store.job_directory) == []
    assert list(page_store.find_pages()) == [7]


def test_the_thousandth_page_has_a_longer_name(page_store: PageStore) -> None:
    page_store.save(page(1000))
    assert os.listdir(page_store.job_directory) == ["page_1000.txt"]


def test_a_truncated_record_is_ignored(page_store: PageStore) -> None:
    page_store.save(page(1))
    page_store.save(page(2))
    records = next(Path(page_store.directory).glob("records-*"))
    records.write_bytes(records.read_bytes()[:-5])
    assert list(page_store.find_pages()) == [1]


def test_the_latest_version_of_a_page_wins(page_store: PageStore) -> None:
    page_store.save(page(1, "old"))
    page_store.save(page(1, "new"))
    assert load(page_store.find_pages()[1]).text == "new"


def test_older_pages_can_be_ignored(page_store: PageStore) -> None:
    page_store.save(page(1))
    since = page_store.find_pages()[1].made_at + 0.000001
    assert page_store.find_pages(made_after=since) == {}
    page_store.save(page(2))
    assert list(page_store.find_pages(made_after=since)) == [2]


def test_pages_of_several_processes_are_found(page_store: PageStore) -> None:
    page_store.save(page(1))
    if os.fork() == 0:
        page_store.save(page(2))
        os._exit(0)
    os.wait()
    assert sorted(page_store.find_pages()) == [1, 2]
    assert len(list(Path(page_store.directory).glob("records-*"))) == 2


def test_linked_files_do_not_change_when_a_page_is_saved_again(
    page_store: PageStore, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    page_store.save(page(1, "old"))
    PageStore(page_store.directory, str(tmp_path / "other")).save(page(1, "new"))
    assert Path(page_store.job_directory, "page_001.txt").read_text() == "old"
    assert (tmp_path / "other" / "page_001.txt").read_text() == "new"


def test_lone_surrogates_are_replaced(page_store: PageStore) -> None:
    page_store.save(page(1, "a\ud800b"))
    assert load(page_store.find_pages()[1]).text == "a?b"
    assert Path(page_store.job_directory, "page_001.txt").read_text() == "a?b"


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no second file system")
def test_files_are_copied_where_hard_links_are_impossible(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        if os.stat(other).st_dev == tmp_path.stat().st_dev:
            pytest.skip("no second file system")
        page_store = PageStore(str(tmp_path), other)
        page_store.save(page(1))
        assert Path(other, "page_001.txt").read_text() == "Hello"


def test_an_aborted_write_leaves_no_file(page_store: PageStore) -> None:
    with pytest.raises(ValueError, match="enough"), page_store.atomic_write("document.md") as path:
        Path(path).write_text("half of it")
        raise ValueError("enough")
    assert os.listdir(page_store.directory) == []


@contextmanager
def files_of(size: int) -> Iterator[None]:
    """Limits the size of files: writes are cut short, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_record_truncated_by_a_full_disk_is_ignored_and_does_not_affect_the_next(
    tmp_path: Path,
) -> None:
    directory = str(tmp_path)
    append_log.append(directory, 1, b'"first"')
    (file,) = tmp_path.iterdir()
    with files_of(file.stat().st_size + 15), pytest.raises(OSError, match="No space left"):
        append_log.append(directory, 2, b'"second"' * 10)
    append_log.append(directory, 3, b'"third"')
    refs = append_log.index(directory)
    assert sorted(refs) == [1, 3]
    assert [line.strip() for line in append_log.read([refs[1], refs[3]])] == [
        b'"first"',
        b'"third"',
    ]


def test_fresh_records_are_found_even_if_the_clock_is_behind(
    tmp_path: Path, page_store: PageStore
) -> None:
    # By the clock of the machine that accepted the job, with a fraction finer than a microsecond.
    wanted_at = int(time.time()) + 60 + 2**-22
    page_store.save(page(7, "old"))
    anew = PageStore(page_store.directory, page_store.job_directory, wanted_at)
    assert anew.find_pages(made_after=wanted_at) == {}
    anew.save(page(7, "new"))
    assert load(anew.find_pages(made_after=wanted_at)[7]).text == "new"
