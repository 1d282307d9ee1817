"""Which URLs and addresses are allowed. The resolver and the connections are fakes."""

import asyncio
from collections.abc import Sequence
from ipaddress import IPv4Address

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secretary.core.errors import AddressRefused, DownloadFailed
from secretary.network.client import Network
from tests.unit.test_addresses import private_addresses, spelling


class Names:
    """A resolver that returns prepared answers for each name, one after the other."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name: list(each) for name, each in answers.items()}
        self.lookups: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.lookups.append(host)
        answers = self.answers[host.removesuffix(".example")]
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Dialled(list[tuple[str, int]]):
    """Records the addresses to connect to, and fails every connection."""

    async def __call__(
        self, address: str, port: int, seconds: float
    ) -> httpcore.AsyncNetworkStream:
        self.append((address, port))
        raise httpcore.ConnectError("nobody there")


def refused(network: Network, url: str, *, https_only: bool = False) -> str:
    with pytest.raises(AddressRefused) as caught:
        network.check(url, https_only=https_only)
    return caught.value.message


class TestCheck:
    @pytest.mark.parametrize(
        "url",
        [
            "https://example.org/a.pdf",
            "http://example.org:8080/",
            "https://münchen.example/Straßenplan für Müller.pdf?größe=ä ö#Seite 3",
            "https://1.1.1.1/",
            "https://[2606:4700::1111]:8443/",
            "HTTPS://EXAMPLE.ORG",
            "https://example.org./",
        ],
    )
    def test_public_urls_pass(self, url: str) -> None:
        Network().check(url)

    @given(spelling(private_addresses))
    def test_no_spelling_of_a_private_address_passes(self, spelt: tuple[IPv4Address, str]) -> None:
        refused(Network(), f"http://{spelt[1]}/")

    @given(private_addresses, st.sampled_from(["::ffff:{}", "64:ff9b::{}", "::{}"]))
    def test_no_private_address_embedded_in_ipv6_passes(
        self, address: IPv4Address, form: str
    ) -> None:
        refused(Network(), f"http://[{form.format(address)}]/")

    @given(st.text() | st.text().map("http://{}".format))
    def test_any_text_either_passes_or_is_refused(self, url: str) -> None:
        try:
            Network().check(url)
        except AddressRefused as error:
            assert error.code == "DOWNLOAD_FAILED"

    @pytest.mark.parametrize(
        "url",
        ["", "example.org", "/etc/passwd", "file:///etc/passwd", "ftp://example.org/a", "//x.org/",
         "gopher://example.org", "javascript:alert(1)", "http+unix://%2Fvar%2Frun%2Fx.sock/",
         "http:///path", "http://", "https:example.org", " http://example.org",
         "http://ann:secret@example.org/", "http://ann@example.org", "http://example.org:0/",
         "http://example.org:65536/", "http://example.org:-1/", "http://example.org:x/",
         "http://example.org:25/", "http://exa mple.org/", "http://example.org\\@127.0.0.1/",
         "http://%6cocalhost/", "http://[::1/", "http://::1/", "http://[fe80::1%25eth0]/",
         "http://\uff11\uff12\uff17.0.0.1/", "http://127。0。0。1/", "http://a\nb.example/", "http://xn--0.example/",
         "http://\ud800/"],
    )  # fmt: skip
    def test_other_urls_are_refused(self, url: str) -> None:
        refused(Network(), url)

    def test_the_message_names_the_host_and_not_the_rest(self) -> None:
        assert refused(Network(), "http://10.0.0.1/a?key=SECRET") == (
            "10.0.0.1 is not a public address, and not among the allowed hosts"
        )
        assert "SECRET" not in refused(Network(), "http://ann:SECRET@example.org/")

    def test_address_refused_is_a_download_failure_without_retry(self) -> None:
        error = AddressRefused("no")
        assert isinstance(error, DownloadFailed)
        assert (error.code, error.retryable) == ("DOWNLOAD_FAILED", False)

    def test_https_can_be_required(self) -> None:
        Network().check("https://example.org/", https_only=True)
        assert "https://" in refused(Network(), "http://example.org/", https_only=True)

    @pytest.mark.parametrize(
        "url", ["http://localhost:25/", "http://127.1/", "http://10.1.2.3/", "http://a.in.example/"]
    )
    def test_an_allowed_host_may_be_private_and_use_plain_http(self, url: str) -> None:
        network = Network(["localhost:25", "127.0.0.1", "10.0.0.0/8", "*.in.example"])
        network.check(url, https_only=True)

    @pytest.mark.parametrize(
        "url",
        ["http://localhost:3000/", "http://127.0.0.1:3000/", "http://[::1]:8080/", "http://10.1.2.3/",
         "http://172.16.0.1/", "http://192.168.1.20:8080/", "http://[fd12::1]/", "http://intranet/",
         "http://client.example/", "https://1.1.1.1/", "http://2130706433/", "http://100.64.0.9/"],
    )  # fmt: skip
    def test_private_hosts_can_be_allowed_for_development_with_plain_http(self, url: str) -> None:
        Network(allow_private=True).check(url, https_only=True)

    @pytest.mark.parametrize(
        "url",
        ["http://169.254.169.254/latest/meta-data/", "http://2852039166/", "http://169.254.170.2/",
         "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[fd00:ec2::254]/",
         "http://[fd20:ce::254]/", "http://168.63.129.16/", "http://192.0.0.192/", "http://[fe80::1]/",
         "http://100.100.100.200/", "http://0.0.0.0/", "http://224.0.0.1/", "http://localhost:6379/",
         "http://10.0.0.1:25/", "http://1.1.1.1/", "file:///etc/passwd"],
    )  # fmt: skip
    def test_metadata_services_and_other_ports_stay_refused_in_development(self, url: str) -> None:
        refused(Network(allow_private=True), url, https_only=True)

    async def test_a_name_may_lead_to_a_local_network_but_to_no_metadata_service(self) -> None:
        names = Names(
            client=[["192.168.1.20"]],
            trick=[["169.254.169.254"]],
            two=[["10.0.0.1", "169.254.169.254"]],
        )
        dialled = Dialled()
        network = Network(allow_private=True, resolve=names, connect=dialled)
        async with network.client() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://client.example/")
            for name in ("trick", "two"):
                with pytest.raises(AddressRefused):
                    await client.get(f"http://{name}.example/")
        assert dialled == [("192.168.1.20", 80)]

    def test_a_private_name_may_resolve_into_an_allowed_range(self) -> None:
        Network(["127.0.0.0/8"]).check("http://wiki.localhost/")
        refused(Network(["other.example"]), "http://wiki.localhost/")

    def test_allowed_hosts_are_reached_by_http_only(self) -> None:
        refused(Network(["localhost"]), "ftp://localhost/")
        refused(Network(["localhost"]), "http://ann:secret@localhost/")

    def test_a_malformed_entry_is_refused_at_once(self) -> None:
        with pytest.raises(ValueError, match="'http://x' is not a host"):
            Network(["http://x"])


class TestClient:
    async def test_a_name_that_resolves_to_a_private_address_is_refused(self) -> None:
        dialled = Dialled()
        network = Network(resolve=Names(evil=[["127.0.0.1"]]), connect=dialled)
        async with network.client() as client:
            with pytest.raises(AddressRefused, match=r"^evil\.example is not a public address"):
                await client.get("http://evil.example/")
        assert dialled == []

    @pytest.mark.parametrize(
        "addresses",
        [
            ["1.1.1.1", "10.0.0.1"],
            ["::1"],
            ["::ffff:169.254.169.254"],
            ["2606:4700::1111", "fe80::1%2"],
            ["64:ff9b::a00:1"],
        ],
    )
    async def test_one_private_address_among_several_is_refused(self, addresses: list[str]) -> None:
        dialled = Dialled()
        network = Network(resolve=Names(evil=[addresses]), connect=dialled)
        async with network.client() as client:
            with pytest.raises(AddressRefused):
                await client.get("https://evil.example/")
        assert dialled == []

    async def test_the_connection_goes_to_the_address_that_was_checked(self) -> None:
        names, dialled = Names(evil=[["1.1.1.1"], ["127.0.0.1"]]), Dialled()
        network = Network(resolve=names, connect=dialled)
        async with network.client() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://evil.example/")
            assert names.lookups == ["evil.example"]
            assert dialled == [("1.1.1.1", 80)]
            with pytest.raises(AddressRefused):
                await client.get("http://evil.example/")
        assert dialled == [("1.1.1.1", 80)]

    async def test_all_checked_addresses_are_tried_in_turn(self) -> None:
        dialled = Dialled()
        names = Names(two=[["2606:4700::1111", "1.1.1.1", "1.1.1.1"]])
        async with Network(resolve=names, connect=dialled).client() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("https://two.example:8443/")
        assert dialled == [("2606:4700::1111", 8443), ("1.1.1.1", 8443)]

    async def test_an_address_in_a_url_is_not_resolved(self) -> None:
        names, dialled = Names(), Dialled()
        async with Network(resolve=names, connect=dialled).client() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://16843009/")
        assert names.lookups == []
        assert dialled == [("1.1.1.1", 80)]

    @pytest.mark.parametrize("entry", ["in.example", "in.example:80", "10.0.0.0/8", "10.0.0.1"])
    async def test_an_allowed_name_or_address_is_connected_to(self, entry: str) -> None:
        dialled = Dialled()
        network = Network([entry], resolve=Names(**{"in": [["10.0.0.1"]]}), connect=dialled)
        async with network.client() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://in.example/")
        assert dialled == [("10.0.0.1", 80)]

    async def test_an_allowed_port_allows_no_other(self) -> None:
        network = Network(
            ["in.example:81"], resolve=Names(**{"in": [["10.0.0.1"]]}), connect=Dialled()
        )
        async with network.client() as client:
            with pytest.raises(AddressRefused):
                await client.get("http://in.example/")

    @pytest.mark.parametrize("error", [OSError("unknown"), UnicodeError("label too long")])
    async def test_an_unresolvable_name_is_a_failed_connection(self, error: Exception) -> None:
        async def resolve(host: str, port: int) -> Sequence[str]:
            raise error

        async with Network(resolve=resolve).client() as client:
            with pytest.raises(httpx.ConnectError, match=r"gone\.example cannot be resolved"):
                await client.get("http://gone.example/")

    async def test_a_hanging_resolver_times_out(self) -> None:
        async def resolve(host: str, port: int) -> Sequence[str]:
            await asyncio.Event().wait()
            return []

        timeout = httpx.Timeout(5, connect=0.05)
        async with Network(resolve=resolve).client(timeout=timeout) as client:
            with pytest.raises(httpx.ConnectTimeout):
                await client.get("http://slow.example/")

    async def test_a_name_without_addresses_is_a_failed_connection(self) -> None:
        async with Network(resolve=Names(empty=[[]]), connect=Dialled()).client() as client:
            with pytest.raises(httpx.ConnectError, match="no addresses"):
                await client.get("http://empty.example/")

    @pytest.mark.parametrize("url", ["http://127.0.0.1/", "ftp://example.org/", "http://localhost"])
    async def test_the_client_checks_every_url(self, url: str) -> None:
        dialled = Dialled()
        async with Network(connect=dialled).client() as client:
            with pytest.raises(AddressRefused):
                await client.get(url)
        assert dialled == []
