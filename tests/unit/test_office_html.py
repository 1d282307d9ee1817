"""Web pages and e-books as Markdown."""

import base64
from pathlib import Path

import pytest

from secretary.core.errors import FileCorrupt, FileEncrypted

from ..minimal_files import PNG, zipped
from ..office_files import markdown, read


def page(body: str, head: str = "") -> bytes:
    return f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>".encode()


def html(body: str, directory: Path) -> str:
    return markdown(page(body), "html", directory)


class TestPages:
    def test_text_and_emphasis(self, tmp_path: Path) -> None:
        body = (
            "<h1>Hi <b>you</b></h1><p>Some\n <b>bold </b>and <em>slanted</em> x<sup>2</sup>,"
            ' <a href="/a b">here</a> <a href="javascript:x()">there</a>.<br>Next <code>a|b</code>'
            "<script>no()</script><style>no</style></p>loose<div>inner</div>tail<hr>"
        )
        assert html(body, tmp_path) == (
            "# Hi you\n\nSome **bold** and *slanted* x², [here](/a%20b) there.  \nNext `a|b`\n\n"
            "loose\n\ninner\n\ntail\n\n---\n"
        )

    def test_lists(self, tmp_path: Path) -> None:
        body = (
            "<ul><li>one<ul><li>deep</ul><li><p>two</p><p>more</p></ul><ol start=3><li>c<li>d</ol>"
            "<dl><dt>term<dd>meaning</dl><p>end</p>"
        )
        assert html(body, tmp_path) == (
            "- one\n  - deep\n- two\n\n  more\n3. c\n4. d\n\nterm\n\n- meaning\n\nend\n"
        )

    def test_tables(self, tmp_path: Path) -> None:
        body = (
            "<table><caption>Cap</caption><thead><tr><th>A<th colspan=2>B</thead><tbody><tr>"
            "<td rowspan=2>x<td>1|2<td>3<tr><td><ul><li>p<li>q</ul><td>line<br>two</table>"
        )
        assert html(body, tmp_path) == (
            "Cap\n\n| A | B |  |\n| --- | --- | --- |\n| x | 1\\|2 | 3 |\n"
            "| x | - p<br>- q | line<br>two |\n"
        )

    def test_tables_that_only_place_things_are_taken_apart(self, tmp_path: Path) -> None:
        inner = "<table><tr><td>a<td>b</table>"
        body = f"<table><tr><td><h2>Head</h2><td>{inner}</table>"
        assert html(body, tmp_path) == "## Head\n\n| a | b |\n| --- | --- |\n"

    def test_what_is_beside_the_cells_of_a_table_is_not_lost(self, tmp_path: Path) -> None:
        body = "<table>loose<tr><p>astray</p><td>a<td>b</table><li>alone</li><p>after</p>"
        assert html(body, tmp_path) == (
            "loose\n\nastray\n\n| a | b |\n| --- | --- |\n\n- alone\n\nafter\n"
        )

    def test_a_fragment_is_a_page_by_its_name(self, tmp_path: Path) -> None:
        assert markdown(b"<h2>Part</h2>", "text", tmp_path, name="a.HTM") == "## Part\n"

    def test_listings_and_quotes(self, tmp_path: Path) -> None:
        body = (
            '<pre><code class="language-py">def f():\n    return "`"</code></pre>'
            "<blockquote><p>wise<ul><li>words</ul></blockquote>"
        )
        assert html(body, tmp_path) == (
            '```py\ndef f():\n    return "`"\n```\n\n> wise\n>\n> - words\n'
        )

    def test_pictures_only_from_the_page_itself(self, tmp_path: Path) -> None:
        data = base64.b64encode(PNG).decode()
        body = (
            f'<img src="data:image/png;base64,{data}" alt="dot">'
            '<img src="http://127.0.0.1:1/a.png" alt="far"><img src="/etc/passwd">'
            '<img src="data:image/png;base64,AAAA" alt="broken">'
        )
        result = read(page(body), "html", tmp_path, include_images=True)
        assert result.pages[0].markdown == "![dot](img-001.png)farbroken\n"
        assert (tmp_path / "pictures" / "img-001.png").read_bytes() == PNG

    def test_what_is_hidden_stays_hidden(self, tmp_path: Path) -> None:
        body = (
            '<p>a</p><p hidden>b</p><p style="display: none">c<b>d</b></p><template>e</template>f'
        )
        assert html(body, tmp_path) == "a\n\nf\n"

    @pytest.mark.parametrize(
        ("encoding", "declared"),
        [
            ("utf-8", ""),
            ("cp1252", ""),
            ("iso-8859-1", '<meta charset="iso-8859-1">'),
            (
                "cp1251",
                '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
            ),
            ("utf-16", ""),
            ("utf-8-sig", '<meta charset="iso-8859-1">'),
        ],
    )
    def test_encodings(self, tmp_path: Path, encoding: str, declared: str) -> None:
        text = "Привет" if encoding == "cp1251" else "Grüße"
        content = page(f"<p>{text}</p>", declared).decode().encode(encoding)
        assert markdown(content, "html", tmp_path) == f"{text}\n"

    def test_its_title_and_language(self, tmp_path: Path) -> None:
        content = b"<html lang=de><title> On\n pages</title><p>x"
        assert read(content, "html", tmp_path).facts == {"title": "On pages", "language": "de"}

    def test_deep_pages_are_read_and_bottomless_ones_refused(self, tmp_path: Path) -> None:
        assert html("<div>" * 1500 + "deep", tmp_path) == "deep\n"
        with pytest.raises(FileCorrupt, match="too deeply"):
            html("<div>" * 100_000 + "deep", tmp_path)

    def test_deep_quotes_are_no_crash(self, tmp_path: Path) -> None:
        with pytest.raises(FileCorrupt):
            html("<blockquote>" * 1500 + "deep", tmp_path)


def book(members: dict[str, str | bytes], spine: str = "one two") -> bytes:
    items = "".join(
        f'<item id="{name}" href="text/{name}.xhtml"/>' for name in sorted(set(spine.split()))
    )
    order = "".join(f'<itemref idref="{name}"/>' for name in spine.split())
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata'
        ' xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A book</dc:title>'
        f"<dc:creator>Anna</dc:creator></metadata><manifest>{items}</manifest>"
        f"<spine>{order}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OPS/package.opf"/></rootfiles></container>'
    )
    return zipped(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": container.encode(),
            "OPS/package.opf": package.encode(),
            **{
                name: content.encode() if isinstance(content, str) else content
                for name, content in members.items()
            },
        }
    )


class TestBooks:
    XHTML = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body>{}</body></html>'

    def test_parts_in_the_order_of_the_spine(self, tmp_path: Path) -> None:
        file = book(
            {
                "OPS/text/one.xhtml": self.XHTML.format(
                    '<h1>One</h1><p><a id="x"/>See <a href="two.xhtml">there</a></p>'
                ),
                "OPS/text/two.xhtml": "<html><body><p>Two&nbsp;parts<br>not closed</body></html>",
            },
            spine="two one",
        )
        result = read(file, "epub", tmp_path)
        assert [each.markdown for each in result.pages] == [
            "Two\u00a0parts  \nnot closed\n",
            "# One\n\nSee there\n",
        ]
        assert result.facts == {"title": "A book", "author": "Anna"}

    def test_pictures(self, tmp_path: Path) -> None:
        text = self.XHTML.format('<p><img src="../images/a%20b.png" alt="dot"/></p>')
        file = book({"OPS/text/one.xhtml": text, "OPS/images/a b.png": PNG}, spine="one")
        result = read(file, "epub", tmp_path, include_images=True).pages[0]
        assert (result.markdown, result.pictures) == (
            "![dot](img-001.png)\n",
            ("img-001.png",),
        )

    def test_entities_are_not_expanded(self, tmp_path: Path) -> None:
        text = (
            '<!DOCTYPE html [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
            + self.XHTML.format("<p>x&b;y</p>")
        )
        output = markdown(book({"OPS/text/one.xhtml": text}, spine="one"), "epub", tmp_path)
        assert "aaaa" not in output.replace('"aaaaaaaaaa"', "")

    def test_protected_books_are_refused_by_name(self, tmp_path: Path) -> None:
        secret = (
            '<encryption xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:CipherReference'
            ' URI="OPS/text/one.xhtml"/></encryption>'
        )
        members: dict[str, str | bytes] = {
            "OPS/text/one.xhtml": b"\x00\x01",
            "META-INF/encryption.xml": secret,
        }
        with pytest.raises(FileEncrypted):
            read(book(members, spine="one"), "epub", tmp_path)

    def test_a_book_without_a_package_is_corrupt(self, tmp_path: Path) -> None:
        with pytest.raises(FileCorrupt):
            read(zipped({"mimetype": b"application/epub+zip"}), "epub", tmp_path)
