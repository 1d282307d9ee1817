"""Work that is found again, and the bound on what is kept."""

import os
import time
from pathlib import Path

import pytest

from secretary.storage.cache import IN_USE, Cache, CacheEntry, sha256_of

A, B = "a" * 64, "b" * 64


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path, max_bytes=2500)


def entry(cache: Cache, sha256: str = A, *, version: str = "1", **options: object) -> CacheEntry:
    return cache.entry("pdf", sha256, "native", options=options, version=version)


def filled(cache: Cache, sha256: str, *, size: int = 1000, used_ago: float = 7200) -> Path:
    directory = entry(cache, sha256).directory
    (directory / "page_001.txt").write_bytes(bytes(size))
    unused_for_long(directory, used_ago)
    return directory


def unused_for_long(directory: Path, seconds: float = 7200) -> None:
    used_at = time.time() - seconds
    os.utime(directory, (used_at, used_at))


def test_an_entry_has_a_place_that_its_content_and_method_name(cache: Cache) -> None:
    assert entry(cache).name == f"cache/pdf/{A}/native"
    assert entry(cache).directory.is_dir()


def test_what_was_noted_is_found_again(cache: Cache) -> None:
    assert entry(cache).metadata is None
    entry(cache).save_metadata({"page_count": 3})
    assert entry(cache).metadata == {"page_count": 3}


def test_options_that_matter_lead_elsewhere(cache: Cache) -> None:
    directories = {
        entry(cache).directory,
        entry(cache, B).directory,
        entry(cache, languages="deu").directory,
        entry(cache, languages="eng").directory,
        entry(cache, password="secret").directory,
    }
    assert len(directories) == 5


def test_no_option_can_be_read_from_the_name(cache: Cache) -> None:
    assert "secret" not in entry(cache, password="secret").name


def test_what_another_version_made_is_thrown_away(cache: Cache) -> None:
    old = entry(cache, version="1")
    (old.directory / "page_001.txt").write_text("old")
    old.save_metadata({"page_count": 3})
    unused_for_long(old.directory)
    new = entry(cache, version="2")
    assert new.directory == old.directory
    assert new.metadata is None
    assert list(new.directory.iterdir()) == []


def test_what_another_version_may_be_using_stays(cache: Cache) -> None:
    old = entry(cache, version="1")
    old.save_metadata({"page_count": 3})
    new = entry(cache, version="2")
    new.save_metadata({"page_count": 4})
    assert new.directory != old.directory
    assert entry(cache, version="1").metadata == {"page_count": 3}
    assert entry(cache, version="2").metadata == {"page_count": 4}


def test_files_of_a_job_outlive_the_entry_they_are_linked_to(cache: Cache, tmp_path: Path) -> None:
    directory = filled(cache, A, size=3000)
    os.link(directory / "page_001.txt", tmp_path / "shown.txt")
    assert cache.prune() == 1
    assert (tmp_path / "shown.txt").stat().st_size == 3000


@pytest.mark.parametrize("torn", ["", "{", "[]", "null", '{"version": "1"}'])
def test_a_note_that_was_cut_short_is_no_note(cache: Cache, torn: str) -> None:
    (entry(cache).directory / "entry.json").write_text(torn)
    assert entry(cache).metadata is None


def test_what_was_not_used_for_longest_goes_first(cache: Cache) -> None:
    oldest = filled(cache, A, used_ago=9000)
    older = filled(cache, B, used_ago=8000)
    newest = filled(cache, "c" * 64, used_ago=7000)
    assert cache.prune() == 1
    assert not oldest.exists()
    assert older.exists()
    assert newest.exists()


def test_a_cache_that_fits_is_left_alone(cache: Cache) -> None:
    filled(cache, A)
    filled(cache, B)
    assert cache.prune() == 0


def test_what_a_job_may_be_using_stays(cache: Cache) -> None:
    used = filled(cache, A, size=5000, used_ago=IN_USE.total_seconds() / 2)
    assert cache.prune() == 0
    assert used.exists()


def test_to_open_an_entry_is_to_use_it(cache: Cache) -> None:
    directory = filled(cache, A, size=5000)
    entry(cache, A)
    assert cache.prune() == 0
    assert directory.exists()


def test_there_may_be_no_cache_yet(tmp_path: Path) -> None:
    assert Cache(tmp_path / "missing").prune() == 0


def test_a_digest_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of(tmp_path / "a") == expected


def test_places_that_stayed_empty_are_pruned_though_all_fits(cache: Cache) -> None:
    used_entry = filled(cache, A, size=10)
    empty = entry(cache, B).directory
    unused_for_long(empty)
    fresh = entry(cache, "c" * 64).directory
    assert cache.prune() == 1
    assert not empty.parent.exists()
    assert used_entry.exists()
    assert fresh.exists()
