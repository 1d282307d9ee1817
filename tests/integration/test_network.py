"""The checked HTTP client, with real connections on loopback."""

from collections.abc import Sequence
from pathlib import Path

import httpcore
import httpx
import pytest

from secretary.core.errors import AddressRefused
from secretary.network.client import Network, connect_tcp, resolve_host
from tests.web_server import Web, WebRequest, serving


async def hello(request: WebRequest) -> None:
    await request.answer(b"hello")


async def test_a_private_server_is_not_reached_unless_it_is_allowed() -> None:
    async with serving(hello) as web:
        async with Network().client() as client:
            with pytest.raises(AddressRefused):
                await client.get(web.url())
        assert web.connections == 0
        async with Network([web.host]).client() as client:
            assert (await client.get(web.url())).text == "hello"


class Rebinding:
    """A name that resolves to a public address once, and to loopback after that."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self.answers = [["93.184.216.34"]]
        self.dialled: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        return self.answers.pop() if self.answers else ["127.0.0.1"]

    async def connect(self, address: str, port: int, seconds: float) -> httpcore.AsyncNetworkStream:
        """Connect to the test server instead of the public address."""
        self.dialled.append(address)
        return await connect_tcp("127.0.0.1", self.web.port, seconds)

    def network(self) -> Network:
        return Network(resolve=self.resolve, connect=self.connect)


async def test_dns_rebinding_is_refused() -> None:
    async with serving(hello) as web:
        name = Rebinding(web)
        async with name.network().client() as client:
            answer = await client.get("http://evil.example:8080/", headers={"Connection": "close"})
            assert answer.text == "hello"
            assert name.dialled == ["93.184.216.34"]
            with pytest.raises(AddressRefused):
                await client.get("http://evil.example:8080/")
        assert name.dialled == ["93.184.216.34"]
    assert web.requests[0].headers["host"] == "evil.example:8080"


async def test_a_connection_is_reused_for_the_same_name_only() -> None:
    async with serving(hello) as web:
        name = Rebinding(web)
        async with name.network().client() as client:
            await client.get("http://evil.example/")
            await client.get("http://evil.example/")  # the same connection, to the checked address
            assert (web.connections, name.dialled) == (1, ["93.184.216.34"])
            with pytest.raises(AddressRefused):
                await client.get("http://other.example/")
        assert web.connections == 1


async def test_the_next_address_is_tried_if_one_is_dead() -> None:
    async with serving(hello) as web:

        async def resolve(host: str, port: int) -> Sequence[str]:
            return ["127.0.0.2", "127.0.0.1"]  # the server listens on the second only

        async with Network(["two.example"], resolve=resolve).client() as client:
            assert (await client.get(web.url(host="two.example"))).text == "hello"


async def test_the_host_header_is_always_that_of_the_url() -> None:
    async with serving(hello) as web, Network([web.host]).client() as client:
        await client.get(web.url(), headers={"Host": "admin.internal"})
        await client.get(web.url(), extensions={"target": b"http://10.0.0.1/", "sni_hostname": "x"})
    assert [incoming.headers["host"] for incoming in web.requests] == [web.host] * 2
    assert [incoming.target for incoming in web.requests] == ["/", "/"]


async def test_redirects_are_not_followed_by_default() -> None:
    async def answer(request: WebRequest) -> None:
        await request.redirect("http://10.0.0.1/")

    async with serving(answer) as web, Network([web.host]).client() as client:
        assert (await client.get(web.url())).status_code == 302
        with pytest.raises(AddressRefused):
            await client.get(web.url(), follow_redirects=True)


async def test_cookies_are_not_stored() -> None:
    async def answer(request: WebRequest) -> None:
        await request.answer(headers={"Set-Cookie": "seen=1"})

    async with serving(answer) as web, Network([web.host]).client() as client:
        await client.get(web.url())
        await client.get(web.url())
    assert "cookie" not in web.requests[1].headers


async def test_proxies_and_passwords_of_the_environment_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password secret\n")
    async with serving(hello) as proxy, serving(hello) as web:
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        async with Network([web.host]).client() as client:
            await client.get(web.url())
        assert (proxy.connections, web.connections) == (0, 1)
    assert "authorization" not in web.requests[0].headers


async def test_a_post_is_sent_with_its_body_and_headers() -> None:
    async def answer(request: WebRequest) -> None:
        await request.answer(await request.body())

    async with serving(answer) as web, Network([web.host]).client() as client:
        answered = await client.post(web.url("/hook"), json={"a": 1}, headers={"X-Own": "1"})
    assert answered.json() == {"a": 1}
    assert web.requests[0].headers["content-type"] == "application/json"
    assert web.requests[0].headers["x-own"] == "1"


async def test_resolve_host_asks_the_system() -> None:
    assert "127.0.0.1" in await resolve_host("localhost", 80)
    assert await resolve_host("::1", 80) == ["::1"]
    with pytest.raises(UnicodeError):
        await resolve_host("x" * 64, 80)


async def test_localhost_can_be_allowed_by_name() -> None:
    async with serving(hello) as web, Network([f"localhost:{web.port}"]).client() as client:
        assert (await client.get(web.url(host="localhost"))).text == "hello"
        assert (await client.get(web.url(host="LOCALHOST."))).text == "hello"


async def test_transport_errors_are_those_of_httpx() -> None:
    async def answer(request: WebRequest) -> None:
        request.writer.close()

    async with serving(answer) as web, Network([web.host]).client() as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(web.url())
