"""The result cache and its eviction."""

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


def filled_entry(cache: Cache, sha256: str, *, size: int = 1000, used_ago: float = 7200) -> Path:
    directory = entry(cache, sha256).directory
    (directory / "page_001.txt").write_bytes(bytes(size))
    age_entry(directory, used_ago)
    return directory


def age_entry(directory: Path, seconds: float = 7200) -> None:
    used_at = time.time() - seconds
    os.utime(directory, (used_at, used_at))


def test_the_path_of_an_entry_contains_the_hash_and_the_method(cache: Cache) -> None:
    assert entry(cache).name == f"cache/pdf/{A}/native"
    assert entry(cache).directory.is_dir()


def test_metadata_is_stored(cache: Cache) -> None:
    assert entry(cache).metadata is None
    entry(cache).save_metadata({"page_count": 3})
    assert entry(cache).metadata == {"page_count": 3}


def test_different_options_have_different_entries(cache: Cache) -> None:
    directories = {
        entry(cache).directory,
        entry(cache, B).directory,
        entry(cache, languages="deu").directory,
        entry(cache, languages="eng").directory,
        entry(cache, password="secret").directory,
    }
    assert len(directories) == 5


def test_options_cannot_be_read_from_the_name(cache: Cache) -> None:
    assert "secret" not in entry(cache, password="secret").name


def test_options_cannot_be_guessed_from_the_name(tmp_path: Path) -> None:
    """A plain hash of four digits is looked up in ten thousand steps."""
    names = {
        entry(Cache(tmp_path, secret=secret * 32), password="1234").name
        for secret in (b"a", b"b", b"c")
    }
    assert len(names) == 3


def test_nor_by_submitting_another_document_with_the_same_options(cache: Cache) -> None:
    hashes = {entry(cache, sha256, password="1234").name.rpartition("-")[2] for sha256 in (A, B)}
    assert len(hashes) == 2


def test_caches_with_the_same_secret_share_their_entries(tmp_path: Path) -> None:
    first, second = (Cache(tmp_path, secret=b"s" * 32) for _ in range(2))
    entry(first, password="1234").save_metadata({"page_count": 3})
    assert entry(second, password="1234").metadata == {"page_count": 3}
    assert "secret" not in repr(first)


def test_an_entry_of_another_version_is_replaced(cache: Cache) -> None:
    old = entry(cache, version="1")
    (old.directory / "page_001.txt").write_text("old")
    old.save_metadata({"page_count": 3})
    age_entry(old.directory)
    new = entry(cache, version="2")
    assert new.directory == old.directory
    assert new.metadata is None
    assert list(new.directory.iterdir()) == []


def test_an_entry_in_use_by_another_version_remains(cache: Cache) -> None:
    old = entry(cache, version="1")
    old.save_metadata({"page_count": 3})
    new = entry(cache, version="2")
    new.save_metadata({"page_count": 4})
    assert new.directory != old.directory
    assert entry(cache, version="1").metadata == {"page_count": 3}
    assert entry(cache, version="2").metadata == {"page_count": 4}


def test_hard_linked_files_outlive_their_entry(cache: Cache, tmp_path: Path) -> None:
    directory = filled_entry(cache, A, size=3000)
    os.link(directory / "page_001.txt", tmp_path / "shown.txt")
    assert cache.prune() == 1
    assert (tmp_path / "shown.txt").stat().st_size == 3000


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"version": "1"}'])
def test_a_truncated_entry_file_is_ignored(cache: Cache, content: str) -> None:
    (entry(cache).directory / "entry.json").write_text(content)
    assert entry(cache).metadata is None


def test_the_least_recently_used_entry_is_evicted_first(cache: Cache) -> None:
    oldest = filled_entry(cache, A, used_ago=9000)
    older = filled_entry(cache, B, used_ago=8000)
    newest = filled_entry(cache, "c" * 64, used_ago=7000)
    assert cache.prune() == 1
    assert not oldest.exists()
    assert older.exists()
    assert newest.exists()


def test_a_cache_within_its_limit_is_not_pruned(cache: Cache) -> None:
    filled_entry(cache, A)
    filled_entry(cache, B)
    assert cache.prune() == 0


def test_a_recently_used_entry_is_not_evicted(cache: Cache) -> None:
    used = filled_entry(cache, A, size=5000, used_ago=IN_USE.total_seconds() / 2)
    assert cache.prune() == 0
    assert used.exists()


def test_opening_an_entry_marks_it_as_used(cache: Cache) -> None:
    directory = filled_entry(cache, A, size=5000)
    entry(cache, A)
    assert cache.prune() == 0
    assert directory.exists()


def test_a_missing_cache_directory_is_fine(tmp_path: Path) -> None:
    assert Cache(tmp_path / "missing").prune() == 0


def test_sha256_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of(tmp_path / "a") == expected


def test_empty_entries_are_always_pruned(cache: Cache) -> None:
    used = filled_entry(cache, A, size=10)
    empty = entry(cache, B).directory
    age_entry(empty)
    fresh = entry(cache, "c" * 64).directory
    assert cache.prune() == 1
    assert not empty.parent.exists()
    assert used.exists()
    assert fresh.exists()
