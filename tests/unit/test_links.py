"""Links from untrusted sources."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secretary.web.talk import (
    MAX_URL,
    VIDEO_KINDS,
    Link,
    LinkKind,
    absolute_url,
    best_url,
    canonical_video_url,
    deduplicated,
    link_kind,
    make_link,
)

PAGE = "https://conf.example/2025/talk/"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("../slides/a.pdf", "https://conf.example/2025/slides/a.pdf"),
        ("//cdn.example/v.mp4", "https://cdn.example/v.mp4"),
        ("HTTP://Conf.Example:8080/x", "http://conf.example:8080/x"),
        ("https://conf.example", "https://conf.example/"),
        ("a file (1).pdf", PAGE + "a%20file%20%281%29.pdf"),
        ("already%20done.pdf", PAGE + "already%20done.pdf"),
        ("vortrag-über.pdf", PAGE + "vortrag-über.pdf"),
        ("?a=1&b=2#part", PAGE + "?a=1&b=2#part"),
    ],
)
def test_a_link_becomes_absolute(url: str, expected: str) -> None:
    assert absolute_url(url, PAGE) == expected


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "mailto:a@b.example",
        "ftp://host/x",
        "http://user:pass@host/x",
        "https://good.example@evil.example/",
        "http://[::1",
        "http://host:99999/",
        "http:///x",
        "http://a b/",
        "http://./",
        "x" * (MAX_URL + 1),
    ],
)
def test_what_leads_elsewhere_than_to_the_web_is_no_link(url: str) -> None:
    assert absolute_url(url, PAGE) is None


@settings(max_examples=300)
@given(st.text(max_size=80))
def test_no_link_can_break_out_of_markdown_or_html(url: str) -> None:
    link = absolute_url(url, PAGE)
    assert link is None or (
        link.startswith(("http://", "https://")) and not set(link) & set('<>"`() \n\r\t\\{}|^')
    )


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://www.youtube.com/watch?v=abc-DEF_123&t=4s", "https://www.youtube.com/watch?v=abc-DEF_123"),
        ("https://youtu.be/abc-DEF_123?si=x", "https://www.youtube.com/watch?v=abc-DEF_123"),
        ("https://www.youtube-nocookie.com/embed/abc-DEF_123", "https://www.youtube.com/watch?v=abc-DEF_123"),
        ("https://player.vimeo.com/video/123456789?h=0a1b2c3d4e", "https://vimeo.com/123456789/0a1b2c3d4e"),
        ("https://vimeo.com/123456789", "https://vimeo.com/123456789"),
        ("https://media.ccc.de/v/38c3-a-talk/oembed", "https://media.ccc.de/v/38c3-a-talk"),
        ("https://tube.example/videos/embed/9c9de5e8-0a1e-484a-b099-e80766180a6d", "https://tube.example/videos/watch/9c9de5e8-0a1e-484a-b099-e80766180a6d"),
        ("https://tube.example/w/kkGMgK9ZtnKfYAgnEtQxbv", "https://tube.example/w/kkGMgK9ZtnKfYAgnEtQxbv"),
        ("https://www.youtube.com/@conference", None),
        ("https://www.youtube.com/embed/videoseries?list=x", None),
        ("https://vimeo.com/about", None),
        ("https://media.ccc.de/c/38c3", None),
        ("https://conf.example/w/short", None),
    ],
)  # fmt: skip
def test_the_page_of_a_video_is_known_however_it_is_embedded(url: str, page: str | None) -> None:
    assert canonical_video_url(url) == page


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://v.example/a.av1.webm", LinkKind.VIDEO),
        ("https://v.example/a.MP4?download=1", LinkKind.VIDEO),
        ("https://v.example/a.vtt", LinkKind.SUBTITLES),
        ("https://v.example/a.pdf#page=2", LinkKind.ATTACHMENT),
        ("https://v.example/pdf", LinkKind.OTHER),
        ("https://v.example/?file=a.pdf", LinkKind.OTHER),
    ],
)
def test_a_file_is_known_by_its_name(url: str, kind: LinkKind) -> None:
    assert link_kind(url) is kind


def test_a_page_may_say_what_a_link_leads_to() -> None:
    link = make_link("/files/17", " The \n slides ", base=PAGE, kind=LinkKind.ATTACHMENT)
    assert link == Link("https://conf.example/files/17", "The slides", LinkKind.ATTACHMENT)


def test_each_address_is_there_once_with_the_title_it_has_somewhere() -> None:
    links = [
        make_link(PAGE),
        None,
        make_link(PAGE + "#top", "The talk"),
        make_link(PAGE[:-1], "Again"),
    ]
    assert deduplicated(links) == [Link(PAGE, "The talk")]


def test_the_best_of_several_is_found() -> None:
    names = ("a.webm", "a.mp4", "paper.pdf", "a_slides.pdf", "slides.pptx", "a.srt", "a.vtt")
    links = deduplicated(make_link(name, base=PAGE) for name in names)
    links.append(Link("https://youtu.be/abcdefgh", kind=LinkKind.VIDEO_PAGE))
    assert best_url(links, *VIDEO_KINDS) == PAGE + "a.mp4"
    assert best_url(links, LinkKind.ATTACHMENT) == PAGE + "a_slides.pdf"
    assert best_url(links, LinkKind.SUBTITLES) == PAGE + "a.vtt"
    assert best_url(links[2:4], *VIDEO_KINDS) is None
