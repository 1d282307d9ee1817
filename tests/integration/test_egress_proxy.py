"""The egress proxy, with real connections on loopback."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import httpcore
import httpx
import pytest
import trustme

from secretary.core.errors import AddressRefused
from secretary.network.client import Network, connect_tcp
from secretary.network.egress_proxy import MAX_CONNECTIONS, EgressProxy, open_egress_proxy
from tests.polling import until
from tests.web_server import WebRequest, serving

IDLE = timedelta(seconds=10)


async def hello(request: WebRequest) -> None:
    await request.answer(b"hello")


@asynccontextmanager
async def proxy_to(
    *allow_hosts: str,
    network: Network | None = None,
    max_bytes: int = 1_000_000,
    idle: timedelta = IDLE,
) -> AsyncIterator[EgressProxy]:
    network = network or Network(allow_hosts)
    async with open_egress_proxy(network, max_bytes=max_bytes, idle=idle) as proxy:
        yield proxy


def client(proxy: EgressProxy, tls: ssl.SSLContext | None = None) -> httpx.AsyncClient:
    """A client that has the proxy's URL and credentials."""
    return httpx.AsyncClient(proxy=proxy.url, verify=tls or False, trust_env=False, timeout=10)


def credentials(proxy: EgressProxy) -> str:
    parts = urlsplit(proxy.url)
    pair = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()
    return f"Proxy-Authorization: Basic {pair}\r\n"


async def exchange(proxy: EgressProxy, request: str, *, first_line: bool = False) -> bytes:
    """Send these bytes and return the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(request.encode("latin-1"))
    try:
        async with asyncio.timeout(10):
            return await (reader.readline() if first_line else reader.read())
    finally:
        writer.close()


async def status(proxy: EgressProxy, first: str, *headers: str, key: bool = True) -> int:
    lines = [first, *headers]
    text = "\r\n".join(lines) + "\r\n" + (credentials(proxy) if key else "") + "\r\n"
    answer = await exchange(proxy, text, first_line=True)
    return int(answer.split(b" ")[1]) if answer else 0


class TestForwarding:
    async def test_http_requests_are_forwarded(self) -> None:
        async with (
            serving(hello) as web,
            proxy_to(web.host) as proxy,
            client(proxy) as program,
        ):
            answer = await program.get(web.url("/a?b=c%20d"), headers={"X-Own": "1"})
        assert (answer.text, answer.headers["connection"]) == ("hello", "close")
        [incoming] = web.requests
        assert incoming.target == "/a?b=c%20d"
        assert incoming.headers["host"] == web.host
        assert incoming.headers["x-own"] == "1"
        assert incoming.headers["connection"] == "close"

    async def test_https_is_tunnelled_end_to_end(self) -> None:
        authority, tls = trustme.CA(), ssl.create_default_context()
        authority.configure_trust(tls)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(server)
        async with (
            serving(hello, server) as web,
            proxy_to(web.host) as proxy,
            client(proxy, tls) as program,
        ):
            assert (await program.get(web.url())).text == "hello"
            assert (await program.get(web.url())).text == "hello"

    async def test_request_bodies_are_forwarded(self) -> None:
        async def echo(request: WebRequest) -> None:
            await request.answer(await request.body())

        async with (
            serving(echo) as web,
            proxy_to(web.host) as proxy,
            client(proxy) as program,
        ):
            assert (await program.post(web.url(), data={"a": "1"})).text == "a=1"

    async def test_the_proxy_connects_to_the_checked_address(self) -> None:
        dialled: list[str] = []
        answers = [["127.0.0.1"], ["93.184.216.34"]]

        async def resolve(host: str, port: int) -> Sequence[str]:
            return answers.pop()

        async with serving(hello) as web:

            async def connect(address: str, port: int, s: float) -> httpcore.AsyncNetworkStream:
                dialled.append(address)
                return await connect_tcp("127.0.0.1", web.port, s)

            network = Network(resolve=resolve, connect=connect)
            async with proxy_to(network=network) as proxy, client(proxy) as program:
                assert (await program.get("http://evil.example/")).text == "hello"
                assert (await program.get("http://evil.example/")).status_code == 403
        assert dialled == ["93.184.216.34"]
        assert web.requests[0].headers["host"] == "evil.example"

    async def test_international_names_are_resolved_as_ascii(self) -> None:
        targets: list[str] = []

        async def resolve(host: str, port: int) -> Sequence[str]:
            targets.append(f"{host}:{port}")
            return ["127.0.0.1"]

        async with proxy_to(network=Network(resolve=resolve)) as proxy:
            async with client(proxy) as program:
                assert (await program.get("http://bücher.example:8080/")).status_code == 403
            assert await status(proxy, "CONNECT xn--bcher-kva.example:443 HTTP/1.1") == 403
        assert targets == ["xn--bcher-kva.example:8080", "xn--bcher-kva.example:443"]


class TestRefusals:
    @pytest.mark.parametrize(
        "host",
        [
            "127.0.0.1", "127.1", "2130706433", "0x7f.1", "169.254.169.254", "10.0.0.1", "[::1]",
            "[::ffff:127.0.0.1]", "[fd00::1]", "[64:ff9b::7f00:1]", "localhost", "LOCALHOST.",
        ],
    )  # fmt: skip
    async def test_private_addresses_are_refused_in_every_spelling(self, host: str) -> None:
        async with serving(hello) as web, proxy_to() as proxy:
            assert await status(proxy, f"CONNECT {host}:{web.port} HTTP/1.1") == 403
            assert await status(proxy, f"GET http://{host}:{web.port}/ HTTP/1.1") == 403
            assert web.connections == 0
            assert isinstance(proxy.refused, AddressRefused)

    async def test_names_that_resolve_to_private_addresses_are_refused(self) -> None:
        async def resolve(host: str, port: int) -> Sequence[str]:
            return ["93.184.216.34", "10.0.0.7"]

        async with proxy_to(network=Network(resolve=resolve)) as proxy:
            assert await status(proxy, "CONNECT inside.example:443 HTTP/1.1") == 403
            assert await status(proxy, "GET http://inside.example/ HTTP/1.1") == 403

    async def test_ports_of_other_protocols_are_refused(self) -> None:
        async with proxy_to() as proxy:
            for port in (22, 25, 6379):
                assert await status(proxy, f"CONNECT example.org:{port} HTTP/1.1") == 403

    @pytest.mark.parametrize("key", ["", "Basic", "Basic c2VjcmV0YXJ5Og==", "Bearer x", "Basic ü"])
    async def test_clients_without_the_password_are_refused(self, key: str) -> None:
        async with serving(hello) as web, proxy_to(web.host) as proxy:
            header = f"Proxy-Authorization: {key}"
            for first in (f"CONNECT {web.host} HTTP/1.1", f"GET {web.url()} HTTP/1.1"):
                assert await status(proxy, first, header, key=False) == 407
                assert await status(proxy, first, key=False) == 407
                assert await status(proxy, first, header) == 407  # two of them: ambiguous
            assert web.connections == 0

    @pytest.mark.parametrize(
        "first",
        [
            "GET / HTTP/1.1", "GET file:///etc/passwd HTTP/1.1", "GET ftp://127.0.0.1/ HTTP/1.1",
            "GET https://{0}/ HTTP/1.1", "TRACE http://{0}/ HTTP/1.1", "GET http://{0}/ HTTP/2",
            "GET  http://{0}/ HTTP/1.1", "CONNECT {0}/x HTTP/1.1", "CONNECT 127.0.0.1 HTTP/1.1",
            "CONNECT a@{0} HTTP/1.1", "nonsense", "GET http:/// HTTP/1.1",
        ],
    )  # fmt: skip
    async def test_requests_not_meant_for_a_proxy_are_refused(self, first: str) -> None:
        async with serving(hello) as web, proxy_to(web.host) as proxy:
            assert await status(proxy, first.format(web.host)) == 400
            assert web.connections == 0

    @pytest.mark.parametrize(
        "headers",
        [
            ["Transfer-Encoding: chunked"],
            ["Content-Length: 1", "Content-Length: 2"],
            ["Content-Length: +1"],
            ["Content-Length: 99999999"],
            ["X: 1\nY: 2"],
            [" folded: 1"],
            ["X : 1"],
            ["X: \0"],
            ["no colon"],
            [f"X{n}: 1" for n in range(200)],
            ["X: " + "y" * 100_000],
        ],
    )
    async def test_ambiguous_requests_are_refused(self, headers: list[str]) -> None:
        async with serving(hello) as web, proxy_to(web.host) as proxy:
            assert await status(proxy, f"POST {web.url()} HTTP/1.1", *headers) in (400, 0)
            assert web.connections == 0


class TestIsolation:
    async def test_the_server_sees_neither_the_password_nor_another_host(self) -> None:
        async with serving(hello) as web, proxy_to(web.host) as proxy:
            first = f"GET {web.url()} HTTP/1.1"
            headers = ["Host: admin.internal", "Proxy-Connection: keep-alive", "Connection: X-A"]
            assert await status(proxy, first, *headers, "X-A: 1") == 200
        [incoming] = web.requests
        assert incoming.headers == {"host": web.host, "connection": "close"}

    async def test_data_after_a_request_is_not_forwarded(self) -> None:
        """A second request may be for another host, and contains the credentials."""

        async def silent(request: WebRequest) -> None:
            await request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        async with serving(silent) as web, proxy_to(web.host) as proxy:
            one = f"GET {web.url()} HTTP/1.1\r\n{credentials(proxy)}\r\n"
            await exchange(proxy, one + one)
            assert len(web.requests) == 1

    async def test_interim_responses_are_dropped(self) -> None:
        async def early(request: WebRequest) -> None:
            await request.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            await request.answer(b"hello")

        async with (
            serving(early) as web,
            proxy_to(web.host) as proxy,
            client(proxy) as program,
        ):
            assert (await program.get(web.url())).text == "hello"

    async def test_an_invalid_response_is_a_bad_gateway(self) -> None:
        async def other(request: WebRequest) -> None:
            await request.send(b"220 mail.example\r\n\r\n")

        async with serving(other) as web, proxy_to(web.host) as proxy:
            assert await status(proxy, f"GET {web.url()} HTTP/1.1") == 502

    async def test_an_unreachable_server_is_a_bad_gateway(self) -> None:
        async with serving(hello) as web:
            gone = web.host
        async with proxy_to(gone) as proxy:
            assert await status(proxy, f"GET http://{gone}/ HTTP/1.1") == 502
            assert await status(proxy, f"CONNECT {gone} HTTP/1.1") == 502


class TestLimits:
    async def test_the_byte_limit_closes_all_connections(self) -> None:
        async def endless(request: WebRequest) -> None:
            if request.target == "/waits":
                await asyncio.sleep(60)
            await request.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                await request.send(bytes(10_000))

        async with serving(endless) as web, proxy_to(web.host, max_bytes=500_000) as proxy:
            waiting = asyncio.create_task(status(proxy, f"GET {web.url('/waits')} HTTP/1.1"))
            await until(lambda: web.requests)
            answer = await exchange(proxy, f"GET {web.url()} HTTP/1.1\r\n{credentials(proxy)}\r\n")
            assert 300_000 < len(answer) <= 500_000
            assert proxy.limit_reached.is_set()
            assert await waiting == 0
            assert await status(proxy, f"GET {web.url()} HTTP/1.1") == 503

    async def test_tunnels_count_towards_the_limit(self) -> None:
        async def endless(request: WebRequest) -> None:
            while True:
                await request.send(bytes(10_000))

        async with serving(endless) as web, proxy_to(web.host, max_bytes=500_000) as proxy:
            text = f"CONNECT {web.host} HTTP/1.1\r\n{credentials(proxy)}\r\nGET / HTTP/1.1\r\n\r\n"
            assert len(await exchange(proxy, text)) <= 501_000
            assert proxy.limit_reached.is_set()

    async def test_a_silent_server_times_out(self) -> None:
        async def silent(request: WebRequest) -> None:
            await asyncio.sleep(60)

        idle = timedelta(seconds=0.2)
        async with serving(silent) as web, proxy_to(web.host, idle=idle) as proxy:
            assert await status(proxy, f"GET {web.url()} HTTP/1.1") == 0
            tunnel = f"CONNECT {web.host} HTTP/1.1\r\n{credentials(proxy)}\r\n"
            assert (await exchange(proxy, tunnel)).startswith(b"HTTP/1.1 200")

    async def test_the_number_of_connections_is_limited(self) -> None:
        async def silent(request: WebRequest) -> None:
            await asyncio.sleep(60)

        async with serving(silent) as web, proxy_to(web.host) as proxy:
            request = f"GET {web.url()} HTTP/1.1"
            waiting = [asyncio.create_task(status(proxy, request)) for _ in range(MAX_CONNECTIONS)]
            await until(lambda: len(web.requests) == MAX_CONNECTIONS)
            assert await status(proxy, request) == 503
            for task in waiting:
                task.cancel()

    async def test_closing_the_proxy_closes_all_connections(self) -> None:
        async def silent(request: WebRequest) -> None:
            await asyncio.sleep(60)

        async with serving(silent) as web:
            async with proxy_to(web.host) as proxy:
                waiting = asyncio.create_task(status(proxy, f"GET {web.url()} HTTP/1.1"))
                await until(lambda: web.requests)
            assert await waiting == 0
            with pytest.raises(ConnectionError):
                await status(proxy, f"GET {web.url()} HTTP/1.1")
