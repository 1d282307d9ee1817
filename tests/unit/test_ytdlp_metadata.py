"""How a site's metadata about a recording is used."""

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from secretary.core.errors import DownloadRefused, FileTooLarge
from secretary.media.probe import Chapter
from secretary.media.ytdlp.metadata import (
    MAX_BYTES,
    SiteRequest,
    check_limits,
    read_info,
    select_subtitles,
    sizes,
    to_site_media,
)
from secretary.network import DownloadLimits

REQUEST = SiteRequest(
    url="https://site.example/watch?v=1",
    directory=Path("into"),
    limits=DownloadLimits(max_bytes=1000),
    max_duration=timedelta(hours=1),
)


def written(directory: Path, info: Any) -> Path:
    file = directory / "info.json"
    file.write_text(json.dumps(info))
    return file


class TestReading:
    def test_one_recording_is_taken_alone_or_out_of_a_list(self, tmp_path: Path) -> None:
        one = {"_type": "video", "id": "1"}
        listed = {"_type": "playlist", "entries": [None, one]}
        assert read_info(written(tmp_path, one), "x") == one
        assert read_info(written(tmp_path, listed), "x") == one

    @pytest.mark.parametrize("entries", [[], [None], [{"id": "1"}, {"id": "2"}]])
    def test_a_list_of_several_or_of_none_is_refused(
        self, tmp_path: Path, entries: list[Any]
    ) -> None:
        with pytest.raises(DownloadRefused):
            read_info(written(tmp_path, {"_type": "playlist", "entries": entries}), "x")

    def test_nothing_at_all_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DownloadRefused):
            read_info(written(tmp_path, None), "x")

    def test_too_many_words_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(FileTooLarge):
            read_info(written(tmp_path, {"description": "x" * MAX_BYTES}), "x")


class TestRefusing:
    @pytest.mark.parametrize(
        "info",
        [
            {"is_live": True},
            {"live_status": "is_live"},
            {"live_status": "is_upcoming"},
            {"live_status": "post_live"},
        ],
    )
    def test_what_is_live(self, info: dict[str, Any]) -> None:
        with pytest.raises(DownloadRefused):
            check_limits(info, REQUEST, "x")

    @pytest.mark.parametrize(
        "info",
        [
            {"duration": 3601},
            {"filesize": 1001},
            {"filesize_approx": 1501},
            {"requested_formats": [{"filesize": 600}, {"filesize": 600}]},
        ],
    )
    def test_what_is_too_much(self, info: dict[str, Any]) -> None:
        with pytest.raises(FileTooLarge):
            check_limits(info, REQUEST, "x")

    @pytest.mark.parametrize(
        "info",
        [
            {},
            {"duration": 3600, "filesize": 1000, "live_status": "was_live"},
            {"filesize_approx": 1400},  # an estimate may be off
            {"duration": "long", "filesize": None},
        ],
    )
    def test_nothing_else(self, info: dict[str, Any]) -> None:
        check_limits(info, REQUEST, "x")

    def test_no_duration_is_too_long_where_none_is_named(self) -> None:
        check_limits({"duration": 1e6}, replace(REQUEST, max_duration=None), "x")

    def test_sizes_are_those_of_the_chosen_formats(self) -> None:
        chosen = [{"filesize": 10, "filesize_approx": 99}, {"filesize_approx": 5.5}]
        assert sizes({"requested_formats": chosen, "filesize_approx": 200}) == (10, 15)


class TestSubtitles:
    def test_all_that_were_written_the_wanted_languages_first(self) -> None:
        info = {"subtitles": {"fr": [], "en-GB": [], "de": []}, "language": "de"}
        request = replace(REQUEST, languages=("en",))
        assert select_subtitles(info, request) == ["en-GB", "de", "fr"]

    def test_no_name_of_a_language_leads_elsewhere(self) -> None:
        tags = ["../x", "a/b", "-en", "en.*", "all", "live_chat", "", "en\n", "x" * 50, "e"]
        assert select_subtitles({"subtitles": dict.fromkeys(tags)}, REQUEST) == []

    def test_only_so_many(self) -> None:
        tags = [f"{a}{b}" for a in "abcde" for b in "abcde"]
        assert len(select_subtitles({"subtitles": dict.fromkeys(tags)}, REQUEST)) == 8

    def test_those_of_a_machine_are_left_out(self) -> None:
        info = {"automatic_captions": {"af": [], "en-orig": [], "en": []}, "language": "en"}
        assert select_subtitles(info, REQUEST) == []
        assert select_subtitles({**info, "subtitles": {"de": []}}, REQUEST) == ["de"]


def test_what_a_site_says_is_taken_where_it_makes_sense() -> None:
    media = to_site_media(
        {
            "webpage_url": "https://site.example/watch?v=1&clean",
            "extractor_key": "Site",
            "title": " Of boats ",
            "description": "",
            "channel": "Ann",
            "upload_date": "20240506",
            "language": "en",
            "chapters": [
                {"start_time": 0, "end_time": 5, "title": "One"},
                {"start_time": 5, "end_time": 5, "title": "None"},
                {"start_time": 5, "end_time": 9.5, "title": None},
            ],
        },
        Path("film.mp4"),
        {},
        REQUEST,
    )
    assert (media.title, media.description, media.uploader) == ("Of boats", None, "Ann")
    assert media.uploaded_on == date(2024, 5, 6)
    assert media.chapters == (Chapter(start=0, end=5, title="One"),)
    assert media.page_url == "https://site.example/watch?v=1&clean"


def test_a_page_address_is_one_of_the_web() -> None:
    info = {"webpage_url": "javascript:alert(1)", "upload_date": "soon"}
    media = to_site_media(info, Path("film.mp4"), {}, REQUEST)
    assert (media.page_url, media.uploaded_on) == (REQUEST.url, None)
