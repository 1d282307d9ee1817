"""Conference schedules as session jobs."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secretary.core.errors import (
    FileCorrupt,
    FileTooLarge,
    InvalidParameters,
    JobFailed,
    UnsupportedFile,
)
from secretary.handlers.session import SessionParameters
from secretary.web import schedule
from secretary.web.schedule import session_parameters
from secretary.web.talk import file_stem, filename_key

from ..conference_schedules import FOSDEM, FRAB, pretalx, pretalx_json

VIDEO = "https://video.fosdem.org/2031/janson/fosdem-2031-9101-gardens-of-code"


def parameters(data: str | bytes, **options: Any) -> list[dict[str, Any]]:
    given = data.encode() if isinstance(data, str) else data
    return session_parameters(given, **options)


def test_a_fosdem_talk_has_everything_from_its_schedule() -> None:
    assert parameters(FOSDEM)[0] == {
        "event": "FOSDEM 2031",
        "session": "Gardens of code: how forks grow",
        "url": "https://fosdem.org/2031/schedule/event/fosdem-2031-9101-gardens-of-code/",
        "filename": "Gardens-of-code-how-forks-grow.md",
        "track": "Main Track - Janson",
        "day": "2031-02-01",
        "starttime": "17:00",
        "endtime": "17:50",
        "speakers": ["Ada Müller", "Bram van Dijk"],
        "video_url": VIDEO + ".mp4",
        "subtitles_url": VIDEO + ".vtt",
        "attachments_url": "https://fosdem.org/2031/events/attachments/x/slides/1/gardens_HyZR9km.pdf",
        "source_language": "en",
    }


def test_older_schedules_of_fosdem_do_not_tell_the_pages_but_they_are_known() -> None:
    talk = parameters(FOSDEM)[1]
    assert talk["url"] == "https://archive.fosdem.org/2031/schedule/event/welcome_rust/"
    assert (talk["starttime"], talk["endtime"]) == ("23:40", "00:30")
    assert not {"speakers", "video_url", "source_language"} & set(talk)


def test_a_frab_talk_has_everything_from_its_schedule() -> None:
    assert parameters(FRAB) == [
        {
            "event": "Tagung der Träume",
            "session": 'Nachts im Saal: <script>alert("x")</script> & mehr',
            "url": "https://tagung.example/2031/Fahrplan/events/77.html",
            "filename": "Nachts-im-Saal-script-alert-x-script-mehr.md",
            "track": "Kunst & Bühne",
            "day": "2031-05-09",
            "starttime": "01:30",
            "endtime": "02:45",
            "speakers": ["Jörg"],
            "video_url": "https://media.ccc.de/v/tagung31-77-nachts_im_saal",
            "attachments_url": "https://tagung.example/system/attachments/9/original/folien.odp?1746",
            "source_language": "de",
        }
    ]


def test_a_pretalx_talk_has_everything_from_its_schedule() -> None:
    assert parameters(pretalx_json()) == [
        {
            "event": "MiniCon 2031",
            "session": "Ducks in a row",
            "url": "https://pretalx.example/minicon-2031/talk/ABC3DE/",
            "filename": "Ducks-in-a-row.md",
            "track": "Birds",
            "day": "2031-09-12",
            "starttime": "11:00",
            "endtime": "11:30",
            "speakers": ["Cleo Ó Briain", "Dr. D"],
            "video_url": "https://www.youtube.com/watch?v=abcDEF-1234",
            "attachments_url": "https://pretalx.example/media/minicon/ducks.pptx",
            "source_language": "en",
        }
    ]


@pytest.mark.parametrize("data", [FOSDEM.encode(), FRAB.encode(), pretalx_json()])
def test_what_comes_out_is_what_a_session_job_takes(data: bytes) -> None:
    for talk in parameters(data):
        read = SessionParameters.model_validate(talk).model_dump(exclude_unset=True)
        assert read == talk


def test_the_event_may_be_called_otherwise() -> None:
    assert {talk["event"] for talk in parameters(FOSDEM, event="FOSDEM 31")} == {"FOSDEM 31"}


def test_links_are_relative_to_where_the_schedule_came_from() -> None:
    text = FRAB.replace("<base_url>https://tagung.example/2031/Fahrplan/</base_url>", "")
    talk = parameters(text, url="https://other.example/2031/schedule.xml")[0]
    assert talk["url"] == "https://other.example/2031/events/77.html"
    assert "url" not in parameters(text)[0]


def test_talks_of_one_title_have_different_files_whichever_are_chosen() -> None:
    everything = [talk["filename"] for talk in parameters(FOSDEM)]
    assert everything[1:] == ["Welcome-9102.md", "WELCOME-9103.md"]
    assert parameters(FOSDEM, tracks=("go",))[0]["filename"] == "WELCOME-9103.md"


@pytest.mark.parametrize(
    ("choice", "tracks"),
    [
        (dict(), ["Main Track - Janson", "Rust", "Go"]),
        (dict(tracks=("rust",)), ["Rust"]),
        (dict(tracks=("main track*", "go")), ["Main Track - Janson", "Go"]),
        (dict(days=("2031-02-01",)), ["Main Track - Janson"]),
        (dict(days=("2",)), ["Rust", "Go"]),
        (dict(days=("Saturday",)), ["Main Track - Janson"]),
        (dict(days=("sonntag",)), ["Rust", "Go"]),
        (dict(titles=("garden",)), ["Main Track - Janson"]),
        (dict(tracks=("rust",), days=("2",), titles=("welc",)), ["Rust"]),
    ],
)
def test_talks_are_chosen_by_track_day_and_title(
    choice: dict[str, tuple[str, ...]], tracks: list[str]
) -> None:
    assert [talk["track"] for talk in parameters(FOSDEM, **choice)] == tracks


def test_when_nothing_fits_the_error_says_what_there_is() -> None:
    with pytest.raises(InvalidParameters) as caught:
        parameters(FOSDEM, tracks=("Perl",))
    assert caught.value.details["tracks"] == ["Main Track - Janson", "Rust", "Go"]
    assert "2031-02-01, 2031-02-02" in str(caught.value)


BOMB = """<?xml version="1.0"?><!DOCTYPE schedule [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>
<schedule><conference><title>&c;</title></conference></schedule>"""
OUTSIDE = """<!DOCTYPE schedule [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<schedule><conference><title>&x;</title></conference></schedule>"""


@pytest.mark.parametrize("data", [BOMB, OUTSIDE, "<schedule>", "<a" * 5000, '{"a":', "[" * 10_000])
def test_a_hostile_or_broken_schedule_is_refused(data: str) -> None:
    with pytest.raises((FileCorrupt, UnsupportedFile)):
        parameters(data)


@pytest.mark.parametrize("data", ["", "hello", "<rss/>", "{}", "[]", '{"schedule": {"days": 3}}'])
def test_what_is_no_schedule_is_refused(data: str) -> None:
    with pytest.raises(UnsupportedFile):
        parameters(data)


def test_utf_16_is_read_too() -> None:
    text = FRAB.replace('encoding="utf-8"', 'encoding="utf-16"')
    assert parameters(text.encode("utf-16"))[0]["speakers"] == ["Jörg"]


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(FileCorrupt):
        parameters("<schedule>" + "<day>" * 100_000)


def test_a_schedule_too_large_is_refused_unread() -> None:
    with pytest.raises(FileTooLarge):
        parameters(b" " * (schedule.MAX_BYTES + 1))


def test_more_talks_than_any_conference_has_are_refused() -> None:
    events = "<event><title>x</title></event>" * (schedule.MAX_TALKS + 1)
    with pytest.raises(FileTooLarge):
        parameters(f"<schedule><day><room>{events}</room></day></schedule>")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=200)
@given(
    st.sampled_from(
        sorted(pretalx()["schedule"]["conference"]["days"][0]["rooms"]["Großer Saal"][0])
    ),
    JSON,
)
def test_any_value_of_any_field_leaves_safe_parameters(field: str, value: Any) -> None:
    document = pretalx()
    event = document["schedule"]["conference"]["days"][0]["rooms"]["Großer Saal"][0]
    event[field] = value
    try:
        talks = parameters(json.dumps(document).encode())
    except JobFailed:
        return
    for talk in talks:
        SessionParameters.model_validate(talk)
        assert file_stem(talk["filename"]) + ".md" == talk["filename"]
        json.dumps(talk, ensure_ascii=False).encode()


@settings(max_examples=100)
@given(st.lists(st.text(max_size=100), min_size=1, max_size=8))
def test_file_names_are_safe_and_differ(titles: list[str]) -> None:
    document = pretalx()
    rooms = document["schedule"]["conference"]["days"][0]["rooms"]
    rooms["Großer Saal"] = [{"title": title, "id": n} for n, title in enumerate(titles)]
    try:
        filenames = [talk["filename"] for talk in parameters(json.dumps(document).encode())]
    except InvalidParameters:
        return
    assert len({filename_key(name) for name in filenames}) == len(filenames)
    assert [file_stem(name) + ".md" for name in filenames] == filenames
