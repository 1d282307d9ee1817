"""Attacks on the real program, with and without API keys. Every one is rejected with a documented
error and reveals nothing about the machine."""

import json
import re
import select
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..minimal_files import pdf
from ..polling import wait_until
from .program import Program, Running
from .raw_http import Answer, Listener, answers, ask, connected, listening, received, send

SECRET = "the-content-of-a-secret-file"
KEYS = {None: "k-operator-5f1c", "ann": "k-ann-93ab", "bob": "k-bob-07de"}
MEBIBYTE = 1024 * 1024

#: Path traversal attempts, as sent in a request.
TRAVERSALS = (
    "../../../../../../etc/passwd",
    "..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "%2e%2e%2f%2e%2e%2f%2e%2e%2fsecret.txt",
    "%252e%252e%252f%252e%252e%252fetc%252fpasswd",
    "..%252f..%252fsecret.txt",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "//etc/passwd",
    "..%5c..%5csecret.txt",
    "..\\..\\secret.txt",
    "....//....//secret.txt",
    "..;/..;/secret.txt",
    "%c0%ae%c0%ae/%c0%ae%c0%ae/etc/passwd",
    "%e0%80%ae%e0%80%ae/secret.txt",
    "a.txt%00",
    "%00",
    "a.txt%00.png",
    "link.txt",
    "away/secret.txt",
    "file:%2f%2f%2fetc%2fpasswd",
    "%ff%fe",
    "%0d%0aX-Injected:%201",
    "x" * 5000,
)

#: Other spellings of 127.0.0.1.
LOOPBACK = (
    "127.0.0.1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "127.1",
    "127.0.1",
    "127.127.127.127",
    "0",
    "0.0.0.0",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]",
    "[::1%25lo]",
    "example.org@127.0.0.1",
    "127.0.0.1#@example.org",
)
ELSEWHERE = (
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
    "http://[fe80::1]/",
    "http://[fd00::1]/",
    "http://100.64.0.1/",
    "file:///etc/passwd",
    "ftp://127.0.0.1/",
    "gopher://127.0.0.1/",
    "data:text/plain,x",
    "//127.0.0.1/",
    "http:///x",
    "http://",
    "x",
)


@dataclass
class Target:
    """The program under attack, and the data an attacker would want."""

    running: Running
    directory: Path
    canary: Listener
    allowed: Listener
    jobs: dict[str, str]
    batches: dict[str, str]
    routes: list[tuple[str, str]]

    @property
    def url(self) -> str:
        return self.running.url

    def ask(
        self, target: str | bytes, *, user: str | None = None, method: str = "GET", **more: Any
    ) -> Answer:
        headers = [("Authorization", f"Bearer {KEYS[user]}"), *more.pop("headers", [])]
        return ask(self.url, target, method=method, headers=headers, **more)

    def post(self, target: str, document: Any, *, user: str | None = None) -> Answer:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        headers = [("Content-Type", "application/json")]
        return self.ask(target, user=user, method="POST", headers=headers, body=body)

    def refused(self, answer: Answer, *statuses: int) -> None:
        """The response has one of these statuses and the documented form, and reveals nothing."""
        assert answer.status in statuses, (answer.status, answer.text[:500])
        body = answer.json
        assert body["status"] == "error"
        assert set(body["error"]) == {"code", "message", "details"}
        assert set(body) <= {"status", "error", "message", "error_type"}
        self.reveals_nothing(answer)

    def reveals_nothing(self, answer: Answer) -> None:
        shown = answer.text + str(answer.headers)
        secrets = [SECRET, "root:x:0", "Traceback", 'File "', str(self.directory), *KEYS.values()]
        assert [each for each in secrets if each in shown] == []
        assert "x-injected" not in answer.headers


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("attacked")
    (directory / "secret.txt").write_text(SECRET)
    keys = ",".join(f"{key}:{user}" if user else key for user, key in KEYS.items())
    with ExitStack() as stack:
        canary, allowed = (stack.enter_context(listening()) for _ in range(2))
        settings = {
            "SECRETARY_API_KEYS": keys,
            "SECRETARY_HANDLERS": "tests.symlink_handler:register",
            "SECRETARY_NETWORK__ALLOW_HOSTS": f"127.0.0.1:{allowed.port}",
            "SECRETARY_LIMITS__MAX_REQUEST_MB": "1",
            "SECRETARY_LIMITS__MAX_UPLOAD_MB": "2",
        }
        program = Program(directory, **settings)
        old = program.data_dir / "cache" / "pdf" / "old"
        old.mkdir(parents=True)  # with the modes of an older version
        (old / "page_001.txt").touch()
        running = stack.enter_context(program.serving())
        target = Target(running, directory, canary, allowed, {}, {}, [])
        _prepare(target)
        yield target
        # Afterwards, the service still responds and its log is clean.
        assert running.process.poll() is None
        assert target.ask("/api/health/ready").status == 200
        log = running.out + running.err
        assert "Traceback" not in log
        assert [key for key in KEYS.values() if key in log] == []
        assert canary.connections == 0


def _prepare(target: Target) -> None:
    paths = ask(target.url, "/api/openapi.json").json["paths"]
    target.routes = [(method.upper(), path) for path in paths for method in paths[path]]
    for name, access in {"private": {}, "readable": {"read_access": ["bob"]}}.items():
        secret = str(target.directory / "secret.txt")
        job = {"job_type": "filing", "parameters": {"secret": secret}, "access_control": access}
        made = target.post("/api/jobs", job, user="ann")
        target.jobs[name] = made.json["data"]["job_id"]
        batch = {"jobs": [job], "batch_name": f"batch {name}", "access_control": access}
        target.batches[name] = target.post("/api/batches", batch, user="ann").json["data"][
            "batch_id"
        ]
    open_jobs = "/api/jobs?status=pending,processing"
    wait_until(lambda: not target.ask(open_jobs).json["data"]["jobs"])
    files = f"/api/files/{target.jobs['private']}"
    assert target.ask(f"{files}/a.txt", user="ann").text == "mine"


def filled(path: str, job: str, batch: str) -> str:
    """A route with these values for its parameters."""
    path = path.replace("{job_id}", job).replace("{batch_id}", batch)
    path = path.replace("{path}", f"{job}/a.txt")
    return re.sub(r"\{\w+\}", "1", path)


def belongs_to_someone(path: str) -> bool:
    """Templates are public, and a track is made of the talks of several jobs."""
    return "{" in path and "/templates/" not in path and "/tracks/" not in path


def test_no_file_of_the_service_can_be_read_by_other_accounts(target: Target) -> None:
    data = target.directory / "data"
    readable = [
        path
        for path in data.rglob("*")
        if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert readable == []
    assert list(data.glob("jobs/*/*/a.txt")) and (data / "cache/pdf/old/page_001.txt").exists()


class TestTraversal:
    def test_no_path_route_leads_out(self, target: Target) -> None:
        routes = [(method, path) for method, path in target.routes if "{" in path]
        assert len(routes) > 20
        for method, path in routes:
            for attack in TRAVERSALS:
                aimed = re.sub(r"\{\w+\}", lambda _, attack=attack: attack, path)  # type: ignore[misc]
                target.refused(target.ask(aimed, method=method), 400, 404, 405)

    def test_nor_do_the_files_of_a_job(self, target: Target) -> None:
        routes = [path for _, path in target.routes if path.endswith("/{path}")]
        assert len(routes) == 4
        job = target.jobs["private"]
        for path in routes:
            for attack in TRAVERSALS:
                for before in (f"{job}/", f"jobs/{job}/", f"{job}/1/", f"{job}/../{job}/"):
                    aimed = path.replace("{path}", before + attack)
                    target.refused(target.ask(aimed, user="ann"), 400, 404)

    def test_file_paths_in_parameters_do_not_either(self, target: Target) -> None:
        names = [*TRAVERSALS, str(target.directory / "secret.txt"), "../../secret.txt", "\x00"]
        ids = []
        for name in names:
            for document in (
                {"file_path": name[:3000]},
                {"file_source": {"type": "file", "path": name}},
                {"file_source": {"type": "upload", "name": name}},
            ):
                answer = target.post("/api/pdf/process", document)
                ids.append(answer.json["job_id"])
        for job in _ended(target, ids):
            assert job["status"] == "failed"
            assert job["error"]["code"] in ("VALIDATION_ERROR", "DOWNLOAD_FAILED")
            assert str(target.directory) not in json.dumps(job["error"])

    def test_the_upload_of_another_user_cannot_be_named(self, target: Target) -> None:
        """The file is kept because its job failed."""
        boundary = [("Content-Type", "multipart/form-data; boundary=XX")]
        body = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
        body += b"%PDF-1.4 torn\r\n--XX--\r\n"
        mine = target.ask(
            "/api/pdf/process", user="ann", method="POST", headers=boundary, body=body
        ).json["job_id"]
        _ended(target, [mine])
        assert (target.directory / "data" / "uploads" / mine / "a.pdf").exists()
        path = f"uploads/{mine}/a.pdf"
        digest = sha256((target.directory / "data" / path).read_bytes()).hexdigest()
        documents: list[dict[str, Any]] = [
            {"file_path": path},
            {"file_path": str(target.directory / "data" / path)},
            {"file_source": {"type": "upload", "name": f"../{mine}/a.pdf"}},
            {"file_source": {"type": "file", "path": path}},
            {"file_source": {"type": "upload", "name": "a.pdf", "size": 13, "sha256": digest}},
        ]
        asked = [target.post("/api/pdf/process", each, user="bob") for each in documents]
        jobs = _ended(target, [answer.json["job_id"] for answer in asked])
        codes = {job["error"]["code"] for job in jobs}
        assert codes == {"VALIDATION_ERROR", "DOWNLOAD_FAILED"}  # and not FILE_CORRUPT


def _ended(target: Target, ids: list[str]) -> list[dict[str, Any]]:

    def job(job_id: str) -> dict[str, Any] | None:
        document: dict[str, Any] = target.ask(f"/api/jobs/{job_id}").json["data"]
        return document if document["completed_at"] else None

    return [wait_until(partial(job, job_id), what=f"the end of {job_id}") for job_id in ids]


class TestRequestForgery:
    def test_no_spelling_of_loopback_is_reached(self, target: Target) -> None:
        urls = [f"http://{host}:{target.canary.port}/canary" for host in LOOPBACK]
        urls += [f"https://127.0.0.1:{target.canary.port}/canary", *ELSEWHERE]
        self._assert_refused(target, urls)

    def test_nor_by_a_redirect(self, target: Target) -> None:
        for host in ("127.0.0.1", "localhost", "[::1]", "2130706433"):
            target.allowed.location = f"http://{host}:{target.canary.port}/canary"
            target.allowed.requests.clear()
            self._assert_refused(target, [f"{target.allowed.url}/first"])
            assert target.allowed.requests == ["/first"]
        for location in ("file:///etc/passwd", "//169.254.169.254/", "gopher://x"):
            target.allowed.location = location
            self._assert_refused(target, [f"{target.allowed.url}/first"])

    def test_a_redirect_in_a_circle_ends(self, target: Target) -> None:
        target.allowed.location = f"{target.allowed.url}/again"
        self._assert_refused(target, [f"{target.allowed.url}/first"])
        assert len(target.allowed.requests) < 30

    def test_webhooks_do_not_reach_it_either(self, target: Target) -> None:
        """Rejected at once, or when the event is about to be sent."""
        hooks = [f"http://{host}:{target.canary.port}/canary" for host in LOOPBACK]
        hooks += [hook.replace("http:", "https:") for hook in hooks]
        ids = []
        for hook in [*hooks, *ELSEWHERE]:
            document = {"job_type": "selftest", "parameters": {"seconds": 0, "steps": 1}}
            answer = target.post("/api/jobs", {**document, "webhook": {"url": hook}})
            if answer.status == 202:
                ids.append(answer.json["data"]["job_id"])
            else:
                target.refused(answer, 400)
            answer = target.post(
                "/api/transformer/text", {"text": "x", "summarize": True, "callback_url": hook}
            )
            if answer.status == 202:
                ids.append(answer.json["job_id"])
            else:
                target.refused(answer, 400)
        _ended(target, ids)
        for job_id in ids:
            delivery = _tried(target, job_id)
            assert delivery["delivered_at"] is None
            assert {each["status"] for each in delivery["tries"]} == {None}
        assert target.canary.connections == 0

    def _assert_refused(self, target: Target, urls: list[str]) -> None:
        ids = []
        for url in urls:
            answer = target.post("/api/pdf/process-url", {"url": url, "max_attempts": 1})
            if answer.status != 202:
                target.refused(answer, 400)
                continue
            ids.append(answer.json["job_id"])
        for job in _ended(target, ids):
            assert (job["status"], job["error"]["code"]) == ("failed", "DOWNLOAD_FAILED"), job
        assert target.canary.connections == 0


def _tried(target: Target, job_id: str) -> dict[str, Any]:
    """The final event of a job, after a delivery was attempted."""

    def last() -> dict[str, Any] | None:
        deliveries = target.ask(f"/api/jobs/{job_id}/deliveries").json["data"]["deliveries"]
        return deliveries[-1] if deliveries and deliveries[-1]["tried"] else None

    delivery: dict[str, Any] = wait_until(last, seconds=10, what="the try")
    return delivery


class TestOtherUsers:
    def test_what_is_private_does_not_exist(self, target: Target) -> None:
        job, batch = target.jobs["private"], target.batches["private"]
        for method, path in target.routes:
            if belongs_to_someone(path):
                answer = target.ask(filled(path, job, batch), user="bob", method=method)
                target.refused(answer, 404)
        assert target.ask(f"/api/jobs/{job}", user="ann").status == 200
        assert target.ask(f"/api/batches/{batch}", user="ann").status == 200

    def test_lists_do_not_show_it(self, target: Target) -> None:
        hidden = (target.jobs["private"], target.batches["private"])
        lists = [path for method, path in target.routes if method == "GET" and "{" not in path]
        lists.remove("/api/events")
        for path in lists:
            for query in ("", "?user_id=ann", f"?q={hidden[0]}", f"?batch_id={hidden[1]}"):
                answer = target.ask(path + query, user="bob")
                assert answer.status in (200, 403)
                # The response echoes the request.
                shown = re.sub(r'"request":\{.*?\}\}', "", answer.text)
                assert not any(each in shown for each in hidden)

    def test_what_may_be_read_cannot_be_changed(self, target: Target) -> None:
        job, batch = target.jobs["readable"], target.batches["readable"]
        for method, path in target.routes:
            if not belongs_to_someone(path):
                continue
            answer = target.ask(filled(path, job, batch), user="bob", method=method)
            if method != "GET":
                target.refused(answer, 403)
            elif not re.search("deliveries|/office/|/pdf/jobs/", path):  # the job has none of these
                assert answer.status == 200, path

    def test_nobody_submits_for_another(self, target: Target) -> None:
        for path in ("/api/jobs", "/api/event-job/jobs", "/api/pdf/process-url"):
            document = {"job_type": "selftest", "url": "https://example.org", "user_id": "ann"}
            target.refused(target.post(path, document, user="bob"), 403)


class TestKeys:
    """Only a few wrong keys: clients that try many are locked out."""

    def test_nothing_but_the_open_routes_answers_without_one(self, target: Target) -> None:
        job, batch = target.jobs["private"], target.batches["private"]
        for method, path in target.routes:
            if not path.startswith("/api/health"):
                answer = ask(target.url, filled(path, job, batch), method=method)
                target.refused(answer, 401)
                assert answer.headers["www-authenticate"] == "Bearer"

    @pytest.mark.parametrize(
        "headers",
        [
            [("Authorization", "Bearer wrong")],
            [("Authorization", "Bearer ")],
            [("Authorization", KEYS[None])],
            [("Authorization", f"Basic {KEYS[None]}")],
            [("Authorization", f"Bearer {KEYS[None]}x")],
            [("Authorization", f"Bearer {KEYS[None][:-1]}")],
            [("Authorization", f"Bearer {KEYS['ann']}:ann")],
            [("Authorization", f"Bearer {KEYS[None].upper()}")],
            [("X-Secretary-Api-Key", "")],
            [("X-Secretary-Api-Key", "ключ")],
            [("Authorization", f"Bearer {KEYS[None]}, Bearer {KEYS['ann']}")],
        ],
    )
    def test_a_wrong_one_is_a_401(self, target: Target, headers: list[tuple[str, str]]) -> None:
        target.refused(ask(target.url, "/api/jobs", headers=headers), 401)

    @pytest.mark.parametrize(
        "headers",
        [
            [("authorization", f"bearer {KEYS[None]}")],
            [("Authorization", f"Bearer   {KEYS[None]} ")],
            [("X-Secretary-Api-Key", KEYS[None])],
            [("Authorization", "Basic eA=="), ("X-Secretary-Api-Key", KEYS[None])],
            [("Authorization", f"Bearer {KEYS[None]}"), ("X-Secretary-Api-Key", KEYS[None])],
        ],
    )
    def test_a_right_one_opens(self, target: Target, headers: list[tuple[str, str]]) -> None:
        assert ask(target.url, "/api/jobs", headers=headers).status == 200

    @pytest.mark.parametrize(
        "headers",
        [
            [("Authorization", f"Bearer {KEYS['bob']}"), ("X-Secretary-Api-Key", KEYS[None])],
            [("Authorization", f"Bearer {KEYS['bob']}"), ("Authorization", f"Bearer {KEYS[None]}")],
        ],
    )
    def test_two_keys_are_none(self, target: Target, headers: list[tuple[str, str]]) -> None:
        """Two readers could disagree on which key counts."""
        target.refused(ask(target.url, "/api/jobs", headers=headers), 401)

    def test_a_bound_key_cannot_act_for_another(self, target: Target) -> None:
        job, batch = target.jobs["private"], target.batches["private"]
        for method, path in target.routes:
            if not path.startswith("/api/health"):
                answer = target.ask(
                    filled(path, job, batch),
                    user="bob",
                    method=method,
                    headers=[("X-User-ID", "ann")],
                )
                target.refused(answer, 403)

    @pytest.mark.parametrize("users", [("ann", "bob"), ("bob", "ann")])
    def test_nor_can_a_request_for_two(self, target: Target, users: tuple[str, str]) -> None:
        headers = [("X-User-ID", user) for user in users]
        for key in (None, "bob"):
            answer = target.ask(f"/api/jobs/{target.jobs['private']}", user=key, headers=headers)
            target.refused(answer, 400, 403)

    @pytest.mark.parametrize("value", ["x" * 201, "x" * 5000])
    def test_a_user_without_end_is_a_400(self, target: Target, value: str) -> None:
        target.refused(target.ask("/api/jobs", headers=[("X-User-ID", value)]), 400)

    SPOOFS = (
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Real-IP", "127.0.0.1"),
        ("Forwarded", "for=127.0.0.1;host=localhost;proto=https"),
        ("X-Forwarded-Host", "localhost"),
        ("X-Forwarded-User", "ann"),
        ("X-Original-URL", "/api/health"),
        ("X-Rewrite-URL", "/api/health"),
        ("X-HTTP-Method-Override", "GET"),
        ("Host", "localhost"),
        ("Host", "evil.example"),
    )

    @pytest.mark.parametrize(("name", "value"), SPOOFS)
    def test_what_a_proxy_might_say_changes_nothing(
        self, target: Target, name: str, value: str
    ) -> None:
        path, spoofed = f"/api/jobs/{target.jobs['private']}", [(name, value)]
        target.refused(ask(target.url, path, headers=spoofed), 401)
        target.refused(target.ask(path, user="bob", headers=spoofed), 404)
        assert target.ask(path, user="ann", headers=spoofed).status == 200


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The program without any API keys."""
    with Program(tmp_path_factory.mktemp("open")).serving("--no-worker") as running:
        yield running.url
        assert ask(running.url, "/api/jobs").status == 200
        assert "Traceback" not in running.out + running.err


class TestWithoutKeys:
    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:5000",
            "evil.example#localhost",
            "localhost@evil.example",
            "evil.example/localhost",
            "10.0.0.1",
            "0.0.0.0",
            "[::ffff:10.0.0.1]",
            "evil_site.example",
            "-evil.example",
            "xn--evl-rma.example",
            "localhost_",
            "[",
            "]",
            "[::1",
            "",
            "%",
            ":80",
        ],
    )
    def test_another_host_is_refused(self, url: str, host: str) -> None:
        answer = ask(url, "/api/jobs", headers=[("Host", host)])
        assert (answer.status, answer.json["error"]["code"]) == (403, "FORBIDDEN")

    def test_two_host_headers_are_refused(self, url: str) -> None:
        headers = [("Host", "localhost"), ("Host", "evil.example")]
        assert ask(url, "/api/jobs", headers=headers).status in (400, 403)
        assert ask(url, "/api/jobs", headers=headers[::-1]).status in (400, 403)

    @pytest.mark.parametrize(
        "host", ["localhost", "LocalHost:1", "127.0.0.1", "127.0.0.9:", "[::1]:5"]
    )
    def test_every_name_of_this_machine_is(self, url: str, host: str) -> None:
        assert ask(url, "/api/jobs", headers=[("Host", host)]).status == 200

    @pytest.mark.parametrize("host", ["[", "[::1", "a b", "\xff"])
    def test_nor_does_one_break_an_error(self, url: str, host: str) -> None:
        for path in ("/nothing", "/api/nothing", "/api/jobs/job-1"):
            assert 400 <= ask(url, path, headers=[("Host", host)]).status < 500

    @pytest.mark.parametrize(
        "origin",
        [
            "https://evil.example",
            "null",
            "http://localhost.evil.example",
            "http://[",
            "file://",
            "x",
        ],
    )
    def test_the_page_of_another_site_is_refused(self, url: str, origin: str) -> None:
        for method, body in (("GET", b""), ("POST", b"{}")):
            headers = [("Origin", origin), ("Content-Type", "application/json")]
            answer = ask(url, "/api/jobs", method=method, headers=headers, body=body)
            assert (answer.status, answer.json["error"]["code"]) == (403, "FORBIDDEN")

    @pytest.mark.parametrize(
        "origin", ["http://localhost:3000", "http://127.0.0.1", "http://[::1]"]
    )
    def test_a_page_of_this_machine_is_allowed(self, url: str, origin: str) -> None:
        assert ask(url, "/api/jobs", headers=[("Origin", origin)]).status == 200


class TestBodies:
    @pytest.mark.parametrize("path", ["/api/jobs", "/api/batches", "/api/event-job/jobs"])
    def test_one_that_is_announced_as_too_large(self, target: Target, path: str) -> None:
        headers = [("Content-Length", str(10**12)), ("Content-Type", "application/json")]
        target.refused(target.ask(path, method="POST", headers=headers), 413)

    def test_on_every_route_that_takes_one(self, target: Target) -> None:
        body = b'{"x": "' + b"x" * (4 * MEBIBYTE) + b'"}'
        posts = [path for method, path in target.routes if method == "POST" and "{" not in path]
        posts.remove("/api/batches/from-files")  # it accepts forms only
        for path in posts:
            target.refused(target.post(path, body), 413)
        form = b'--XX\r\nContent-Disposition: form-data; name="x"\r\n\r\n' + body + b"\r\n--XX--"
        headers = [("Content-Type", "multipart/form-data; boundary=XX")]
        answer = target.ask("/api/batches/from-files", method="POST", headers=headers, body=form)
        target.refused(answer, 413)

    @pytest.mark.parametrize("path", ["/api/jobs", "/api/pdf/process", "/api/transformer/text"])
    @pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=XX"])
    def test_an_endless_one(self, target: Target, path: str, kind: str) -> None:
        with connected(target.url) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEYS[None]}\r\n"
            head += f"Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head.encode())
            first = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            start = first if "multipart" in kind else b'"'
            answer = _answered_before_the_end(connection, [start, *[b"x" * 65536] * 1000])
            target.refused(answers(answer)[0], 413, 400)

    BOMBS = (
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"job_type": "selftest", "parameters": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
        b'{"parameters": {"a": ' + b"[" * 200 + b"]" * 200 + b"}}",
        b'{"parameters": {"a": ' + b"9" * 10_000 + b"}}",
        b'{"parameters": {"a": ' + b"9" * 400 + b"}}",
        b'{"parameters": {"a": 1e400}}',
        b'{"parameters": {"a": NaN}}',
        b'{"parameters": {"a": "\\ud800"}}',
        b'{"parameters": {"\\ud800": 1}}',
        b'{"job_type": "\\udfff"}',
        b'{"job_name": "\\ud800"}',
        b'{"parameters": {"a": "\xff"}}',
        b'{"priority": 1e308}',
        b'{"timeout_s": 1e999}',
        b'{"run_at": "99999-99-99"}',
        b'{"user_id": ["a"]}',
        b'{"job_type": {"$gt": ""}}',
        b"{",
        b"\x00",
        b"[]",
        b"null",
        b'"x"',
        b"\xef\xbb\xbf{}x",
    )

    @pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
    def test_a_bomb(self, target: Target, bomb: bytes) -> None:
        for path in ("/api/jobs", "/api/event-job/jobs"):
            target.refused(target.post(path, bomb), 400)
        batch = b'{"jobs": [' + bomb + b"]}"
        target.refused(target.post("/api/batches", batch), 400)
        answer = target.post("/api/pdf/process-url", bomb)
        target.refused(answer, 400)

    @pytest.mark.parametrize(
        "text",
        [
            '{"job_type": "selftest", "job_type": "filing", "parameters": {"secret": "/nothing"}}',
            '{"job_type": "selftest", "job_name": "a\\u0000b\\u001b[31m\\u202e"}',
            '{"job_type": "a\\u0000\\n"}',
            '{"job_type": "x", "parameters": {"a\\u0000b": "\\u0000", "$where": 1, "a.b": 2}}',
            '{"job_type": "selftest", "parameters": {"__proto__": {"x": 1}, "": 1}}',
            '{"job_type": "selftest", "user_id": "\\u0000\\n"}',
        ],
    )
    def test_what_is_only_strange_is_kept_or_refused(self, target: Target, text: str) -> None:
        answer = target.post("/api/jobs", text.encode())
        target.reveals_nothing(answer)
        if answer.status != 202:
            target.refused(answer, 400)
            return
        job_id = answer.json["data"]["job_id"]
        assert target.ask(f"/api/jobs/{job_id}").json["data"]["job_id"] == job_id
        assert target.ask("/api/jobs?limit=5").status == 200

    @pytest.mark.parametrize(
        "text", ["%00", "%0a", "%1b%5b31m", "%e2%80%ae", "%ff", "%ed%a0%80", "'"]
    )
    def test_control_characters_in_ids_and_filters(self, target: Target, text: str) -> None:
        target.refused(target.ask(f"/api/jobs/job-{text}"), 404)
        target.refused(target.ask(f"/api/batches/{text}"), 404)
        for name in ("q", "user_id", "job_type", "batch_id", "status", "cursor", "limit"):
            answer = target.ask(f"/api/jobs?{name}={text}")
            assert answer.status in (200, 400), (name, answer.text)
            target.reveals_nothing(answer)

    @pytest.mark.parametrize("query", [b"q=\xff", b"%", b"%zz", b"a" * 3000, b"&" * 3000])
    def test_a_strange_query(self, target: Target, query: bytes) -> None:
        answer = target.ask(b"/api/batches?" + query)
        assert answer.status in (200, 400)
        target.reveals_nothing(answer)
        target.reveals_nothing(target.ask(b"/api/nothing?" + query))

    @pytest.mark.parametrize("key", ["", " ", "x" * 256, "ключ"])
    def test_a_strange_idempotency_key(self, target: Target, key: str) -> None:
        headers = [("Idempotency-Key", key), ("Content-Type", "application/json")]
        body = b'{"job_type": "selftest", "parameters": {"seconds": 0}}'
        answer = target.ask("/api/jobs", method="POST", headers=headers, body=body)
        assert answer.status in (202, 400)

    @pytest.mark.parametrize(
        "kind", ["", "text/xml", "application/x-www-form-urlencoded", "multipart/form-data", "\x01"]
    )
    def test_another_content_type(self, target: Target, kind: str) -> None:
        headers = [("Content-Type", kind)] if kind else []
        answer = target.ask("/api/jobs", method="POST", headers=headers, body=b'{"a": 1}')
        assert answer.status in (202, 400)
        target.reveals_nothing(answer)


def _answered_before_the_end(connection: socket.socket, chunks: list[bytes]) -> bytes:
    """What the server sends while it is still receiving chunks."""
    connection.setblocking(False)
    for chunk in chunks:
        data = b"%x\r\n%s\r\n" % (len(chunk), chunk)
        while data:
            readable, writable, _ = select.select([connection], [connection], [], 5)
            if readable:
                connection.settimeout(1)
                return received(connection)
            assert writable, "The server neither reads nor responds"
            data = data[connection.send(data) :]
    raise AssertionError("The server never stops reading")


class TestProtocol:
    """Below the application, the server responds without the documented form."""

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "HEAD", "DELETE"])
    def test_a_method_that_is_not_there(self, target: Target, method: str) -> None:
        answer = target.ask("/api/jobs", method=method)
        assert answer.status == 405
        target.reveals_nothing(answer)

    @pytest.mark.parametrize("method", ["FOO", "get", "GET\x00", "", "CONNECT", "X" * 5000])
    def test_a_method_that_is_none(self, target: Target, method: str) -> None:
        answer = target.ask("/api/jobs", method=method)
        assert answer.status in (0, 400, 404, 405)
        target.reveals_nothing(answer)

    AUTH = f"Authorization: Bearer {KEYS[None]}\r\n".encode()
    SMUGGLED = b"GET /api/smuggled HTTP/1.1\r\nHost: x\r\n" + AUTH + b"\r\n"

    @pytest.mark.parametrize(
        "framing",
        [
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            b"Content-Length: 0\r\nContent-Length: 5\r\n",
            b"Content-Length: 5, 0\r\n",
            b"Content-Length: +5\r\n",
            b"Content-Length: -5\r\n",
            b"Content-Length: 0x5\r\n",
            b"Content-Length: 99999999999999999999999\r\n",
            b"Content-Length: \xb2\r\n",
            b"Transfer-Encoding: xchunked\r\n",
            b"Transfer-Encoding: identity, chunked, identity\r\n",
            b"Transfer-Encoding : chunked\r\n",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            b" Transfer-Encoding: chunked\r\n",
        ],
    )
    def test_a_body_with_two_lengths_hides_no_request(self, target: Target, framing: bytes) -> None:
        head = b"POST /api/jobs HTTP/1.1\r\nHost: x\r\n" + self.AUTH + framing + b"\r\n"
        replies = send(target.url, head + b"0\r\n\r\n" + self.SMUGGLED, seconds=0.3)
        assert [answer for answer in replies if "smuggled" in answer.text] == []
        assert all(answer.status in (400, 401, 413) for answer in replies)

    def test_two_requests_in_one_are_answered_in_order(self, target: Target) -> None:
        first = b"GET /api/jobs/job-1 HTTP/1.1\r\nHost: x\r\n" + self.AUTH + b"\r\n"
        last = self.SMUGGLED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        with connected(target.url) as connection:
            connection.sendall(first + last)
            replies = answers(received(connection))
        assert [answer.status for answer in replies] == [404, 404]
        assert "job-1" in replies[0].text and "smuggled" in replies[1].text

    @pytest.mark.parametrize(
        "data",
        [
            b"\x00" * 100,
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET\r\n\r\n",
            b"GET /api/jobs\r\n\r\n",
            b"GET /api/jobs HTTP/9.9\r\n\r\n",
            b"GET  /api/jobs HTTP/1.1\r\n\r\n",
            b"GET /api/\x00jobs HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET http://evil.example/api/jobs HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /api/jobs HTTP/1.1\r\nA\r\n\r\n",
            b"GET /api/jobs HTTP/1.1\r\nA: b\x00c\r\n\r\n",
            b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /no HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        ],
    )
    def test_what_is_no_request_does_no_harm(self, target: Target, data: bytes) -> None:
        for answer in send(target.url, data, seconds=0.3):
            assert 400 <= answer.status < 500
            target.reveals_nothing(answer)

    @pytest.mark.parametrize(
        "headers",
        [
            [(f"X-Header-{number}", "x") for number in range(5000)],
            [("X-Long", "x" * 1_000_000)],
            [("X" * 100_000, "x")],
            [("Cookie", "a=b; " * 10_000)],
            [("Accept", "a/b," * 10_000)],
            [("Prefer", "wait=1," * 2000)],
            [("If-None-Match", '"x",' * 5000), ("Range", "bytes=" + "0-1," * 2000)],
        ],
        ids=["many", "long", "long name", "cookie", "accept", "prefer", "range"],
    )
    def test_many_headers(self, target: Target, headers: list[tuple[str, str]]) -> None:
        answer = target.ask("/api/jobs/job-1", headers=headers)
        assert answer.status in (0, 400, 404, 431)
        target.reveals_nothing(answer)


class TestSlowness:
    def test_others_are_served_while_some_drip(self, target: Target) -> None:
        """Some send their headers and some their bodies byte by byte, and never finish."""
        bound = f"Authorization: Bearer {KEYS[None]}\r\n"
        upload = (
            f"POST /api/pdf/process HTTP/1.1\r\nHost: x\r\n{bound}Content-Length: 100000\r\n"
            "Content-Type: multipart/form-data; boundary=XX\r\n\r\n--XX\r\nContent-Disposition:"
            ' form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-'
        )
        starts = ["GET /api/jobs HTTP/1.1\r\nX-Slow: ", upload]
        with ExitStack() as stack:
            slow: list[socket.socket] = []
            for start in starts * 50:
                connection = stack.enter_context(connected(target.url))
                connection.sendall(start.encode())
                slow.append(connection)
            for _ in range(3):
                for connection in slow:
                    connection.sendall(b"x")
                began = time.monotonic()
                assert target.ask("/api/jobs").status == 200
                files = {"file": ("a.pdf", pdf("Hello"))}
                headers = {"Authorization": f"Bearer {KEYS[None]}"}
                with httpx.Client(base_url=target.url, headers=headers, trust_env=False) as client:
                    assert client.post("/api/pdf/process", files=files).status_code == 202
                assert time.monotonic() - began < 3
        uploads = target.directory / "data" / "uploads"
        wait_until(
            lambda: not any([*one.glob("a.pdf")] for one in _unknown(target, uploads)),
            seconds=10,
        )


def _unknown(target: Target, uploads: Path) -> list[Path]:
    """Uploads that did not become a job."""
    files = list(uploads.iterdir())
    return [each for each in files if target.ask(f"/api/jobs/{each.name}").status == 404]
