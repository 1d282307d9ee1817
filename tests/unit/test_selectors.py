"""Selectors for elements of a web page: a small part of CSS, and XPath."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from secretary.core.errors import InvalidParameters
from secretary.web.selectors import select, to_xpath

PAGE = html.fromstring(
    """<html><body><main id="programme"><ul class="talks list">
    <li class="talk first" data-track="Main"><a href="/1.html">One</a></li>
    <li class="talk" data-track="Main Hall"><a href="/2.pdf">Two</a></li>
    <li class="break">Lunch</li></ul></main><p>After</p><div><div class="talk">Three</div></div>
    </body></html>"""
)


@pytest.mark.parametrize(
    ("selector", "texts"),
    [
        ("li", ["One", "Two", "Lunch"]),
        ("LI.talk", ["One", "Two"]),
        (".talk", ["One", "Two", "Three"]),
        ("li.talk.first", ["One"]),
        ("#programme li.break", ["Lunch"]),
        ("ul > li", ["One", "Two", "Lunch"]),
        ("main > li , p", ["After"]),
        ("li.talk + li", ["Two", "Lunch"]),
        (".first ~ li", ["Two", "Lunch"]),
        ("main + p", ["After"]),
        ("li:first-child", ["One"]),
        ("li:nth-child(2)", ["Two"]),
        ("li:last-child", ["Lunch"]),
        ("[data-track]", ["One", "Two"]),
        ("li[data-track=Main]", ["One"]),
        ("li[data-track='Main Hall'] a", ["Two"]),
        ('li[data-track~="Hall"]', ["Two"]),
        ("a[href^='/1']", ["One"]),
        ("a[href$='.pdf']", ["Two"]),
        ("a[href*='htm']", ["One"]),
        ("ul *", ["One", "Two", "Lunch"]),
        ("//li[2]", ["Two"]),
        ("/html/body/p", ["After"]),
        ("(//li)[3]", ["Lunch"]),
    ],
)
def test_the_elements_are_found_in_their_order(selector: str, texts: list[str]) -> None:
    assert [one.text_content().strip() for one in select(PAGE, selector)] == texts


@pytest.mark.parametrize(
    "selector",
    ["", " ", ">", "li >", ", li", "li:hover", "li::before", "li[", "li[a=']", "li{}", "..", ".",
     "#", "li:nth-child(0)", "li:not(.a)", "a|b", "count(//li)", "'x'"],
)  # fmt: skip
def test_what_is_not_supported_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match="CSS selector"):
        to_xpath(selector)


@pytest.mark.parametrize("selector", ["//li[", "//@class", "//text()", "/x:y", "//nothing", "h6"])
def test_what_selects_no_elements_is_an_error(selector: str) -> None:
    with pytest.raises(InvalidParameters, match="container_selector"):
        select(PAGE, selector)


@given(st.text() | st.text("li.#[]=\"'>+~,: *()abc/@|"))
def test_any_text_is_a_selector_or_is_refused(selector: str) -> None:
    try:
        assert select(PAGE, selector)
    except InvalidParameters as error:
        assert "container_selector" in error.message


@pytest.mark.parametrize("part", [" ", "a ", ".a", "[a]", "a>", "a,", "[a='", ":first-child", "("])
def test_a_long_one_takes_no_longer_than_its_length(part: str) -> None:
    started = time.process_time()
    with suppress(ValueError):
        to_xpath(part * (500 // len(part)))
    assert time.process_time() - started < 1
