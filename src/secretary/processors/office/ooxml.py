"""What docx, xlsx and pptx share: parts, relationships, properties."""

import posixpath
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote

from ...errors import FileCorrupt
from .archive import Archive
from .blocks import Picture
from .pictures import Pictures
from .xml_parts import DUBLIN, Element, parsed, texts_in

_OFFICE = "http://schemas.openxmlformats.org/"
RELATION = f"{{{_OFFICE}officeDocument/2006/relationships}}"
DRAWING = f"{{{_OFFICE}drawingml/2006/main}}"
MARKUP = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_PACKAGE = f"{{{_OFFICE}package/2006/relationships}}"
_PROPERTIES = {
    f"{DUBLIN}title": "title",
    f"{DUBLIN}subject": "subject",
    f"{DUBLIN}creator": "author",
    f"{DUBLIN}language": "language",
    f"{{{_OFFICE}package/2006/metadata/core-properties}}keywords": "keywords",
    "{http://purl.org/dc/terms/}created": "created_at",
    "{http://purl.org/dc/terms/}modified": "modified_at",
}


class Relation(NamedTuple):
    #: The last word of its type, for instance `image`.
    kind: str
    #: The name of a part, or an address outside the document.
    target: str
    is_outside: bool


@dataclass(frozen=True)
class Part:
    archive: Archive
    name: str

    @cached_property
    def root(self) -> Element:
        return parsed(self.archive.read(self.name))

    @cached_property
    def relations(self) -> dict[str, Relation]:
        folder, name = posixpath.split(self.name)
        path = posixpath.join(folder, "_rels", f"{name}.rels")
        if path not in self.archive:
            return {}
        found = parsed(self.archive.read(path)).iterchildren(f"{_PACKAGE}Relationship")
        return {each.get("Id", ""): _relation(each, folder) for each in found}

    def related(self, kind: str) -> "Part | None":
        """The part that is bound to this one by a relation of this kind, if there is one."""
        for relation in self.relations.values():
            if relation.kind == kind and self.has(relation):
                return Part(self.archive, relation.target)
        return None

    def by_id(self, identity: str | None) -> "Part | None":
        relation = self.relations.get(identity or "")
        return Part(self.archive, relation.target) if relation and self.has(relation) else None

    def has(self, relation: Relation) -> bool:
        return not relation.is_outside and relation.target in self.archive

    def link(self, identity: str | None) -> str | None:
        relation = self.relations.get(identity or "")
        return relation.target if relation and relation.is_outside else None

    def picture(self, identity: str | None, alt: str | None, pictures: Pictures) -> Picture:
        """A picture of this part; one that is only linked to is not fetched."""
        part = self.by_id(identity) if pictures.are_kept else None
        file = pictures.keep(part.archive.read(part.name)) if part else None
        return Picture((alt or "").strip(), file)

    def drawn_picture(
        self, element: Element, pictures: Pictures, alt: str | None = None
    ) -> Picture:
        """Of an element `pic`, the children of which have the same prefix; `alt` is what to say
        of it if it does not say it itself."""
        own = element.tag.removesuffix("pic")
        named = element.find(f"{own}nvPicPr/{own}cNvPr")
        blip = element.find(f"{own}blipFill/{DRAWING}blip")
        identity = blip.get(f"{RELATION}embed") if blip is not None else None
        description = named.get("descr") if named is not None else None
        return self.picture(identity, description or alt, pictures)


def main_part(archive: Archive, usual_name: str) -> Part:
    part = Part(archive, "").related("officeDocument")
    if part is not None:
        return part
    if usual_name not in archive:
        raise FileCorrupt("The document has no content")
    return Part(archive, usual_name)


def facts_of(archive: Archive) -> dict[str, str]:
    part = Part(archive, "").related("core-properties")
    return texts_in(part.root, _PROPERTIES) if part is not None else {}


def alternative(element: Element) -> Element | None:
    """Of the ways to write the same thing the one that new programs read."""
    chosen = element.find(f"{MARKUP}Choice")
    return chosen if chosen is not None else element.find(f"{MARKUP}Fallback")


def _relation(element: Element, folder: str) -> Relation:
    kind = element.get("Type", "").rpartition("/")[2]
    target = element.get("Target", "")
    if element.get("TargetMode") == "External":
        return Relation(kind, target, True)
    path = posixpath.normpath(posixpath.join("/", folder, unquote(target)))
    return Relation(kind, path.lstrip("/"), False)
