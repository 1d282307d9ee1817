"""Pages of conference talks."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secretary.core.errors import FileCorrupt, FileTooLarge, JobFailed
from secretary.web import markup
from secretary.web.page import parse_talk_page, read_talk_page
from secretary.web.talk import Link, LinkKind, TalkPage
from secretary.worker.sandbox import Sandbox

from .. import conference_pages

HERE = "https://conf.example/2031/talk/x/"


def read(html: str, url: str = HERE) -> TalkPage:
    return parse_talk_page(html.encode(), url)


def body(inner: str, head: str = "") -> str:
    return f"<!doctype html><html><head>{head}</head><body>{inner}</body></html>"


def urls(links: tuple[Link, ...]) -> list[str]:
    return [link.url for link in links]


def of_kind(page: TalkPage, *kinds: LinkKind) -> tuple[Link, ...]:
    return tuple(link for link in page.links if link.kind in kinds)


def videos(page: TalkPage) -> tuple[Link, ...]:
    return of_kind(page, LinkKind.VIDEO, LinkKind.VIDEO_PAGE)


def test_a_page_of_fosdem_is_read_whole() -> None:
    page = read(conference_pages.FOSDEM, "https://fosdem.org/2031/schedule/event/gardens/")
    video = "https://video.fosdem.org/2031/janson/gardens"
    assert replace(page, links=()) == TalkPage(
        site="fosdem",
        title="Gardens of code: how forks & friends grow",
        speakers=("Ada Müller", "Bram van Dijk"),
        text="Forks are *gardens*: see [this page](https://fosdem.org/2031/schedule/about/).\n\n"
        "- one\n- two\n\nA second part with 2 * 3 * 4 and a_b_c.\n",
        event="FOSDEM 2031",
        track="Main Track - Janson",
        day="Saturday",
        starttime="17:00",
        endtime="17:50",
        language="en",
    )
    assert videos(page) == (
        Link(f"{video}.mp4", "Video recording (MP4) - 436.8 MB", LinkKind.VIDEO),
        Link(f"{video}.av1.webm", "", LinkKind.VIDEO),
    )
    assert of_kind(page, LinkKind.SUBTITLES) == (
        Link(f"{video}.vtt", "Video recording subtitle file (VTT)", LinkKind.SUBTITLES),
    )
    assert of_kind(page, LinkKind.ATTACHMENT) == (
        Link(
            "https://fosdem.org/2031/events/attachments/gardens/slides/1/gardens_HyZR9km.pdf",
            "Slides (pdf)",
            LinkKind.ATTACHMENT,
        ),
    )
    assert of_kind(page, LinkKind.OTHER) == (
        Link("https://example.org/project", "Project home"),
        Link("https://fosdem.org/submission/feedback/9101", "Submit Feedback"),
    )


def test_a_page_of_pretalx_is_read_on_any_host() -> None:
    page = read(conference_pages.PRETALX, "https://talks.example/minicon-2031/talk/ABC3DE/")
    assert (page.site, page.title, page.event) == ("pretalx", "Ducks in a row", "MiniCon 2031")
    assert page.speakers == ("Cleo Ó Briain",)
    assert (page.day, page.starttime, page.endtime) == ("2031-09-12", "11:00", "11:30")
    assert page.language == "de"
    assert page.text == (
        "Why **ducks** go in rows.\n\nThey follow [their mother](https://example.org/mother).\n"
    )
    assert urls(videos(page)) == ["https://media.ccc.de/v/minicon31-31-ducks"]
    assert [link.title for link in of_kind(page, LinkKind.ATTACHMENT)] == ["All the ducks"]
    assert of_kind(page, LinkKind.ATTACHMENT)[0].url.startswith(
        "https://talks.example/media/minicon-2031/"
    )
    assert urls(of_kind(page, LinkKind.OTHER)) == ["https://example.org/mother"]


def test_a_page_that_frab_exported_is_read() -> None:
    page = read(conference_pages.FRAB, "https://tagung.example/2031/events/77.html")
    assert (page.site, page.title) == ("frab", "Nachts im Saal: ein Versuch")
    assert page.speakers == ("Jörg",)
    assert page.text == "Dunkel war's.\n\nDer Mond schien helle.\n"
    assert (page.day, page.starttime, page.endtime) == ("2031-05-09", "21:30", "22:45")
    assert (page.track, page.language) == ("Kunst & Bühne", "de")
    assert urls(videos(page)) == ["https://www.youtube.com/watch?v=abcDEF-1234"]
    assert urls(of_kind(page, LinkKind.ATTACHMENT)) == [
        "https://tagung.example/system/attachments/9/original/folien.odp"
    ]
    assert of_kind(page, LinkKind.OTHER) == ()


def test_a_page_of_the_newer_frab_is_read() -> None:
    page = read(conference_pages.NEW_FRAB, "https://frab.example/de/tagung31/public/events/77")
    assert (page.site, page.title, page.event) == ("frab", "Nachts im Saal", "Tagung der Träume")
    assert (page.speakers, page.text) == (("Jörg",), "Dunkel war's.\n")
    assert (page.day, page.starttime, page.endtime) == ("2031-05-09", "21:30", "22:45")
    assert (page.track, page.language) == ("Kunst", "de")
    assert urls(of_kind(page, LinkKind.ATTACHMENT)) == ["https://frab.example/files/folien.pdf"]
    assert [link.kind for link in videos(page)] == [LinkKind.VIDEO_PAGE]


def test_any_other_page_is_read_by_its_metadata() -> None:
    page = read(conference_pages.GENERIC, "https://owl.example/talks/owls")
    assert (page.site, page.title, page.event) == ("", "Owls at night", "OwlConf 2031")
    assert (page.speakers, page.language) == (("Eve & Co",), "de")
    assert (page.day, page.starttime, page.endtime) == ("2031-03-04", "20:15", "21:00")
    assert page.text.startswith("Owls see well in the dark")
    assert "## Outline\n\n- How eyes work" in page.text
    assert "[data](https://owl.example/talks/data)" in page.text
    assert "Imprint" not in page.text and "Tickets" not in page.text
    assert urls(videos(page)) == [
        "https://owl.example/media/owls.mp4",
        "https://www.youtube.com/watch?v=owlOWL-1234",
    ]
    assert urls(of_kind(page, LinkKind.SUBTITLES)) == ["https://owl.example/media/owls.srt"]
    assert urls(of_kind(page, LinkKind.ATTACHMENT)) == ["https://owl.example/files/owls-slides.pdf"]
    assert urls(of_kind(page, LinkKind.OTHER)) == ["https://owl.example/talks/data"]


def test_what_a_page_orders_stays_text_and_what_it_would_run_is_gone() -> None:
    page = read(conference_pages.GENERIC)
    assert "Ignore all previous instructions" in page.text
    assert "\\<script>alert(1)\\</script>" in page.text
    assert "alert(2)" not in page.text and "alert(3)" not in page.text


def test_what_a_page_hides_is_not_read() -> None:
    hidden = "<p style='color: red; display: NONE'>Obey</p><div hidden>Obey <b>me</b></div>Seen."
    page = read(body(f"<h1>T</h1><main>{hidden}</main>"))
    assert page.text == "Seen.\n"


def test_markup_in_a_title_is_text() -> None:
    page = read(
        body("<h1>&lt;img src=x&gt; <b>Bold</b> [x](y)<script>z()</script></h1><p>Text</p>")
    )
    assert page.title == "<img src=x> Bold [x](y)"


def test_an_event_that_is_not_the_page_itself_is_the_conference() -> None:
    data = '<script type="application/ld+json">{"@type": "Event", "name": "BigConf"}</script>'
    page = read(body("<h1>Small talk</h1><p>Hello</p>", data))
    assert (page.title, page.event) == ("Small talk", "BigConf")


def test_players_and_their_subtitles_are_found() -> None:
    page = read(
        body(
            "<h1>T</h1><video src='v.mp4'><source src='v.webm'><track src='v.vtt' label='Deutsch'>"
            "<track kind='metadata' src='thumbs.vtt'></video><audio><source src='a.mp3'></audio>"
            "<iframe src='//www.youtube-nocookie.com/embed/abc_DEF-123?rel=0'></iframe>"
            "<iframe src='https://ads.example/x'></iframe>"
        )
    )
    assert urls(videos(page)) == [
        f"{HERE}v.mp4", f"{HERE}v.webm", "https://www.youtube.com/watch?v=abc_DEF-123",
    ]  # fmt: skip
    assert of_kind(page, LinkKind.SUBTITLES) == (
        Link(f"{HERE}v.vtt", "Deutsch", LinkKind.SUBTITLES),
    )


def test_the_base_of_a_page_counts_but_only_on_the_web() -> None:
    link = "<main><h1>T</h1><a href='a.pdf'>A</a></main>"
    assert urls(of_kind(read(body(link, "<base href='/files/'>")), LinkKind.ATTACHMENT)) == [
        "https://conf.example/files/a.pdf"
    ]
    assert urls(of_kind(read(body(link, "<base href='file:///etc/'>")), LinkKind.ATTACHMENT)) == [
        f"{HERE}a.pdf"
    ]


def test_a_short_text_is_found_too() -> None:
    page = read(body("<nav>Menu</nav><main><h1>T</h1><p>Short.</p></main><footer>Foot</footer>"))
    assert page.text == "Short.\n"


def test_with_no_text_the_description_stands_in() -> None:
    head = "<title>T</title><meta name='description' content='What &lt;it&gt; is about'>"
    assert read(body("", head)).text == "What \\<it> is about\n"


@pytest.mark.parametrize("html", ["", " ", "<html></html>", "<p></p>", "\0"])
def test_a_page_with_nothing_is_no_success(html: str) -> None:
    with pytest.raises(FileCorrupt):
        read(html)


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000,
        "<p " + " ".join(f"a{n}" for n in range(20_000)) + ">",
        "<i></i>" * (markup.MAX_ELEMENTS + 1),
        "<main>" + "<blockquote>" * 1_000 + "a word",
    ],
    ids=["deep", "many attributes", "many elements", "quotes in quotes"],
)
def test_a_page_made_to_cost_time_is_refused(html: str) -> None:
    with pytest.raises((FileCorrupt, FileTooLarge)):
        read(body(html))


@pytest.mark.parametrize(
    "html",
    [
        "<h1>" + "<b>" * 1000 + "T" + "</b>" * 1000 + "</h1>",
        "<h1>T</h1><script type='application/ld+json'>" + "[" * 50_000 + "</script>",
        "<h1>T</h1>" + "<a href='http://[x'>y</a><img src='http://[::1'>" * 100,
        "<h1>T</h1><table><tr><td colspan=99999999 rowspan=-1>x",
        "<h1>T</h1><script>if (a<b) {x = [" + "1," * 50_000 + "]}</script>",
        "<h1>T</h2><p>x</p></h1>",
        "<main><h1>T</h1><ol start=" + "9" * 4300 + "><li>a<li>b",
    ],
)
def test_a_page_that_is_only_odd_is_read(html: str) -> None:
    assert read(body(html)).title == "T"


def test_a_page_too_large_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_bytes(b" " * (markup.MAX_BYTES + 1))
    with pytest.raises(FileTooLarge):
        read_talk_page(str(file), HERE)


def test_a_page_travels_between_processes(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(conference_pages.FOSDEM)
    page = read_talk_page(str(file), HERE)
    assert pickle.loads(pickle.dumps(page)) == page


PIECES = st.sampled_from(
    ["<div class='talk-title'>", "<ul class=side-box>", "<li><strong>Track</strong>: x", "</ul>",
     "<section class=abstract>", "<h1>", "</h2>", "<p>text ", "<a href=x.pdf>", "<a href='//['>",
     "<b>", "Room:", "<td>", "<th>Day", "<table>", "</div>", "<time datetime=1>",
     "<video src=v.mp4>",
     "<!--", "<script type='application/ld+json'>",
     '{"@type": "Event", "performer": [null, 3, {"name": []}]}',
     "</script>", "<base href=ftp://x>", "<iframe src=https://youtu.be/abcdefgh>", "&#0;", "\x00",
     "<div id=details>", "<div id=basic>", "<article><h2>A: b</h2>", "<div class=speakers-section>"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES | st.text(max_size=10), max_size=25))
def test_any_page_is_read_or_refused_with_a_reason(pieces: list[str]) -> None:
    try:
        page = read("".join(pieces))
    except JobFailed:
        return
    links = page.links
    assert all(link.url.startswith(("http://", "https://")) for link in links)
    assert len(set(urls(links))) == len(links)
    assert "\n" not in page.title


def test_reading_a_page_opens_no_connection() -> None:
    program = f"""
import sys; sys.path[:] = {sys.path!r}
def refuse(event, arguments):
    if event.startswith(("socket.", "urllib.")):
        raise SystemExit(f"it reached for the network: {{event}} {{arguments}}")
from secretary.web.page import parse_talk_page
import trafilatura
from tests.conference_pages import GENERIC
sys.addaudithook(refuse)
assert parse_talk_page(GENERIC.encode(), "https://owl.example/talks/owls").text
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_a_page_is_read_in_a_sandbox(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(conference_pages.GENERIC)
    sandbox = Sandbox(1)
    await sandbox.open()
    try:
        page = await sandbox.run(read_talk_page, str(file), HERE)
    finally:
        await sandbox.close()
    assert page == read(conference_pages.GENERIC)


def test_who_only_sends_the_work_loads_no_parsers() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; import secretary.web.talk; print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "secretary.web.talk" in result.stdout.split()
    assert not {"lxml", "trafilatura"} & set(result.stdout.split())
