"""Reads the page of a conference talk, as it was downloaded."""

import html
import re

from ...errors import FileCorrupt
from .facts import Facts, merged
from .labels import facts_of_labels
from .linked_data import facts_of_linked_data
from .links import Link, LinkKind, absolute, place_of
from .main_text import main_text, region_of
from .markup import Element, markdown_of_html, page_at, parsed_page, without_scripts
from .page_tags import (
    description_of,
    facts_of_tags,
    heading_of,
    links_in,
    players,
    title_of,
)
from .sites import site_of
from .talk_page import TalkPage


def read_talk_page(path: str, url: str) -> TalkPage:
    """Runs in a sandbox: the page is a stranger's. Nothing is fetched, no script is run."""
    return page_of(page_at(path), url)


def page_of(data: bytes, url: str) -> TalkPage:
    root = parsed_page(data, url)
    linked = facts_of_linked_data(root, f"{heading_of(root)} {title_of(root)}", url)
    without_scripts(root)
    site, told = site_of(root)
    sources = [told, Facts(links=tuple(players(root))), linked, facts_of_tags(root)]
    if not site:
        sources += [Facts(links=tuple(_links(root))), facts_of_labels(root)]
    facts = merged(sources)
    text = told.text or (main_text(root) if not site else "")
    text = text or linked.text or markdown_of_html(html.escape(description_of(root)))
    if not (facts.title or text):
        raise FileCorrupt("The page has neither a title nor a text")
    return _page(facts, _without_title(text, facts.title), url, site)


def _without_title(text: str, title: str) -> str:
    """The title stands above the text anyway."""
    first, _, rest = text.partition("\n")
    said = re.sub(r"^#+ |\\(?=[^\w\s])", "", first).strip()
    return rest.lstrip("\n") if first.startswith("#") and said == title and rest.strip() else text


def _links(root: Element) -> list[Link]:
    """All of what says to be the content, and files and videos wherever they are."""
    region = region_of(root)
    own = links_in([region]) if region is not None else []
    return [*own, *links_in([root], everything=region is None)]


def _page(facts: Facts, text: str, url: str, site: str) -> TalkPage:
    here = place_of(absolute(url) or url)
    links = [link for link in facts.links if place_of(link.url) != here]

    def of(*kinds: LinkKind) -> tuple[Link, ...]:
        return tuple(link for link in links if link.kind in kinds)

    return TalkPage(
        url=url,
        site=site,
        title=facts.title,
        speakers=facts.speakers,
        text=text,
        event=facts.event or None,
        track=facts.track or None,
        day=facts.day or None,
        starttime=facts.starttime or None,
        endtime=facts.endtime or None,
        room=facts.room or None,
        language=facts.language or None,
        videos=of(LinkKind.VIDEO, LinkKind.VIDEO_PAGE),
        subtitles=of(LinkKind.SUBTITLES),
        attachments=of(LinkKind.ATTACHMENT),
        links=of(LinkKind.OTHER),
    )
