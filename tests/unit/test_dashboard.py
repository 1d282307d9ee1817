"""The dashboard's files: how they are served, and what they contain."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import httpx
import pytest

from secretary.api import create_api
from secretary.api.dashboard import MEDIA_TYPES
from secretary.api.responses import CODES
from secretary.core import errors
from secretary.handlers import BUILTIN
from secretary.handlers.media_pipeline import NotKept
from secretary.jobs.handler import Registry
from secretary.jobs.service import JobService
from secretary.store import Store
from tests.api_server import serving
from tests.backends import files_in
from tests.no_tls import NO_TLS

ROOT = Path(__file__).parents[2] / "src" / "secretary" / "dashboard"
FILES = sorted(path for path in ROOT.rglob("*") if path.suffix in MEDIA_TYPES)
OURS = [path for path in FILES if path.parent == ROOT]
SCRIPTS = [path for path in OURS if path.suffix == ".js"]
KINDS_OF_ERROR = [kind for kind in vars(errors).values() if isinstance(kind, type)]
JOB_CODES = {kind.code for kind in KINDS_OF_ERROR if issubclass(kind, errors.JobFailed)} | {
    "CANCELLED"
}


@pytest.fixture
async def client(store: Store, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    job_service = JobService(store, Registry(BUILTIN), files_in(tmp_path, store))
    async with (
        serving(create_api(job_service, api_keys=["right"])) as url,
        httpx.AsyncClient(base_url=url, verify=NO_TLS, trust_env=False) as client,
    ):
        yield client


class TestServing:
    async def test_the_page_is_there_without_a_key(self, client: httpx.AsyncClient) -> None:
        answer = await client.get("/")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
    async def test_every_file_is_served_as_what_it_is(
        self, client: httpx.AsyncClient, path: Path
    ) -> None:
        answer = await client.get(f"/dashboard/{path.relative_to(ROOT)}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == MEDIA_TYPES[path.suffix]
        assert answer.content == path.read_bytes()

    @pytest.mark.parametrize("path", ["/", "/dashboard/app.js"])
    async def test_nothing_inline_and_nothing_from_elsewhere_may_run(
        self, client: httpx.AsyncClient, path: str
    ) -> None:
        headers = (await client.get(path)).headers
        policy = dict(
            part.strip().partition(" ")[::2]
            for part in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert "unsafe" not in headers["content-security-policy"]
        assert "http" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"

    async def test_a_matching_etag_returns_304(self, client: httpx.AsyncClient) -> None:
        first = await client.get("/dashboard/app.js")
        assert first.headers["cache-control"] == "no-cache"
        for etags in (first.headers["etag"], f'"other", W/{first.headers["etag"]}'):
            again = await client.get("/dashboard/app.js", headers={"If-None-Match": etags})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == first.headers["etag"]
        changed = await client.get("/dashboard/app.js", headers={"If-None-Match": '"other"'})
        assert changed.status_code == 200

    @pytest.mark.parametrize(
        "path",
        [
            "/dashboard/",
            "/dashboard/nothing.js",
            "/dashboard/vendor",
            "/dashboard/vendor/README.md",
            "/dashboard/..%2fversion.py",
            "/dashboard/%2e%2e/version.py",
            "/dashboard/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd",
            "/dashboard//etc/passwd",
            "/dashboard/app.js%00.html",
            "/dashboard/..%5cversion.py",
        ],
    )
    async def test_nothing_else_can_be_asked_for(
        self, client: httpx.AsyncClient, path: str
    ) -> None:
        answer = await client.get(path)
        assert answer.status_code in (401, 404)
        assert answer.json()["status"] == "error"

    async def test_the_api_below_it_stays_closed(self, client: httpx.AsyncClient) -> None:
        for path in ("/api/jobs", "/api/overview", "/api/system", "//api/jobs", "/dashboards"):
            assert (await client.get(path)).status_code == 401


class TestFiles:
    def test_no_file_names_another_host(self) -> None:
        for path in OURS:
            hosts = set(re.findall(r"https?://([\w.-]+)", path.read_text()))
            # A namespace, an example in a field, and the sites whose URLs are recognized.
            assert hosts <= {"www.w3.org", "example.org"}, path.name

    def test_every_import_leads_somewhere(self) -> None:
        named = [
            (path.name, name)
            for path in SCRIPTS
            for name in re.findall(r"""(?:from|import\()\s*"(\./[^"]+)\"""", path.read_text())
        ]
        assert len(named) > 50
        assert [one for one in named if not (ROOT / one[1]).is_file()] == []

    def test_the_page_asks_at_once_for_all_scripts_of_its_first_view(self) -> None:
        """All at once, instead of each one when its importer has loaded."""
        needed, todo = set(), ["app.js", "overview.js"]
        while todo:
            needed.add(name := todo.pop())
            imported = re.findall(r'(?m)^import [^;]*"\./([^"]+)"', (ROOT / name).read_text())
            todo += [other for other in imported if other not in needed]
        page = (ROOT / "index.html").read_text()
        preloaded = re.findall(r'<link rel="modulepreload" href="/dashboard/([^"]+)">', page)
        assert sorted(preloaded) == sorted(needed)

    def test_only_the_templates_make_html(self) -> None:
        """Everything else goes through code that escapes."""
        unsafe = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(")
        assert [path.name for path in SCRIPTS if unsafe.search(path.read_text())] == ["html.js"]

    def test_no_markup_has_a_style_or_a_handler(self) -> None:
        """The policy would block them."""
        inline = re.compile(r"""<[a-z][^>]*\s(style|on[a-z]+)=""")
        assert [path.name for path in OURS if inline.search(path.read_text())] == []

    def test_what_is_of_others_has_its_licence_and_version(self) -> None:
        vendor = ROOT / "vendor"
        table = (vendor / "README.md").read_text()
        for script in vendor.glob("*.js"):
            version = script.stem.rpartition("-")[2]
            assert f"| `{script.name}` | {version} |" in table
            assert list(vendor.glob(f"{script.stem}.LICENSE*"))

    def test_scripts_are_small_enough_to_read(self) -> None:
        assert [p.name for p in SCRIPTS if len(p.read_text().splitlines()) > 300] == []


class TestWords:
    def words(self, language: str) -> dict[str, str]:
        text = (ROOT / f"i18n_{language}.js").read_text()
        return dict(re.findall(r'"([\w./?-]+)": "((?:[^"\\]|\\.)*)"', text))

    def test_both_languages_say_the_same(self) -> None:
        german, english = self.words("de"), self.words("en")
        assert german.keys() == english.keys()
        assert len(english) > 300
        for name, text in english.items():
            assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", german[name])), (
                name
            )
            assert (" | " in text) == (" | " in german[name]), name

    def test_every_text_that_is_used_is_there(self) -> None:
        words = self.words("en")
        used = [
            (path.name, name)
            for path in SCRIPTS
            for name in re.findall(r'\bt\("([\w./?-]+)"', path.read_text())
        ]
        assert len(used) > 200
        assert [one for one in used if one[1] not in words] == []

    @pytest.mark.parametrize("language", ["de", "en"])
    def test_every_error_has_words_and_a_remedy(self, language: str) -> None:
        words = self.words(language)
        for code in {*JOB_CODES, *CODES.values()}:
            assert f"code.{code}" in words, code
            assert f"remedy.{code}" in words, code

    def test_every_error_of_a_job_has_a_button(self) -> None:
        script = (ROOT / "job_failure.js").read_text()
        remedies = script.partition("const REMEDIES")[2].partition("};")[0]
        assert set(re.findall(r"(?m)^  ([A-Z_]+): \[\"", remedies)) == JOB_CODES

    def test_whatever_keeps_a_recording_from_being_kept_has_words(self) -> None:
        words = self.words("en")
        for why in get_args(NotKept):
            assert f"player.not_kept.{why}" in words
