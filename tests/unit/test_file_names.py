import pytest
from hypothesis import given
from hypothesis import strategies as st

from secretary.core.files import LONGEST_NAME, disposed_name, downloaded_name, safe_name


class TestDisposition:
    @pytest.mark.parametrize(
        ("header", "name"),
        [
            ('attachment; filename="report.pdf"', "report.pdf"),
            ("attachment; filename=report.pdf", "report.pdf"),
            ("attachment; filename=my report.pdf ; size=3", "my report.pdf"),
            ("inline;FILENAME=a.pdf", "a.pdf"),
            (r'attachment; filename="a \"b\".pdf"', 'a "b".pdf'),
            ('attachment; filename="a;b.pdf"; x=y', "a;b.pdf"),
            ("attachment; filename*=UTF-8''na%C3%AFve%20file.txt", "naïve file.txt"),
            ("attachment; filename*=utf-8'de'%C3%BC.pdf; filename=u.pdf", "ü.pdf"),
            ("attachment; filename=u.pdf; filename*=iso-8859-1''%FC.pdf", "ü.pdf"),
            ("attachment; filename=u.pdf; filename*=utf-8''%FF%FE", "u.pdf"),
            ("attachment; filename=u.pdf; filename*=klingon''x", "u.pdf"),
            ("attachment; filename=u.pdf; filename*=nothing", "u.pdf"),
            ("filename=a.pdf", "a.pdf"),
            ('attachment; name="filename=evil"; filename=a.pdf', "a.pdf"),
        ],
    )
    def test_the_file_name_is_parsed(self, header: str, name: str) -> None:
        assert disposed_name(header) == name

    @pytest.mark.parametrize("header", ["", "attachment", 'attachment; filename=""', ";;;", "a=b"])
    def test_a_header_without_a_name_gives_none(self, header: str) -> None:
        assert disposed_name(header) is None

    @given(st.text())
    def test_any_header_can_be_parsed(self, header: str) -> None:
        disposed_name(header)


class TestSafeNames:
    @pytest.mark.parametrize(
        ("name", "safe"),
        [
            ("Grüße aus München.pdf", "Grüße aus München.pdf"),
            ("u\u0308.pdf", "ü.pdf"),
            ("../../etc/passwd", "passwd"),
            (r"C:\Users\ann\a.pdf", "a.pdf"),
            ("a\x00b\n.pdf", "ab.pdf"),
            ("invoice\u202efdp.exe", "invoicefdp.exe"),
            ("a:b*c?.pdf", "a_b_c_.pdf"),
            (".bashrc", "bashrc"),
            ("a.pdf. ", "a.pdf"),
            ("..", ""),
            ("a/", ""),
            ("\ud800", ""),
            ("", ""),
        ],
    )
    def test_harmful_characters_are_removed(self, name: str, safe: str) -> None:
        assert safe_name(name) == safe

    def test_a_long_name_keeps_its_suffix(self) -> None:
        name = safe_name("ä" * 300 + ".pdf")
        assert name == "ä" * 98 + ".pdf"

    def test_a_long_suffix_is_not_a_suffix(self) -> None:
        assert safe_name("a." + "x" * 300) == "a." + "x" * 198

    @given(st.text())
    def test_any_name_becomes_safe(self, name: str) -> None:
        safe = safe_name(name)
        assert not set(safe) & set('/\\\x00\n:<>"|?*')
        assert safe == safe.strip(". ")
        assert len(safe.encode()) <= LONGEST_NAME


class TestDownloads:
    def test_the_name_from_the_header_comes_first(self) -> None:
        assert downloaded_name("attachment; filename=b.pdf", "/a.pdf", None) == "b.pdf"

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("/x/Stra%C3%9Fe%20%231.pdf?download=1", "Straße #1.pdf"),
            ("/x/a%2Fb.pdf", "b.pdf"),
            ("/x/%2e%2e", "download.pdf"),
            ("/x/", "download.pdf"),
            ("", "download.pdf"),
            ("/?file=a.pdf", "download.pdf"),
        ],
    )
    def test_the_name_from_the_url_comes_next_and_has_a_fallback(
        self, path: str, name: str
    ) -> None:
        assert downloaded_name('attachment; filename=".."', path, "application/pdf") == name

    def test_an_unknown_type_has_no_suffix(self) -> None:
        assert downloaded_name(None, "/", "x/unheard-of") == "download"
        assert downloaded_name(None, "/", None) == "download"
