"""Hosts are parsed in every spelling."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secretary.network.addresses import is_private_name, is_public, parse_host

PRIVATE_RANGES = [
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip

addresses = st.integers(0, 2**32 - 1).map(IPv4Address)
private_addresses = st.sampled_from(PRIVATE_RANGES).flatmap(
    lambda network: st.integers(int(network.network_address), int(network.broadcast_address)).map(
        IPv4Address
    )
)


@st.composite
def spelling(draw: st.DrawFn, of: st.SearchStrategy[IPv4Address]) -> tuple[IPv4Address, str]:
    """An address, and one of the spellings that C's inet_aton accepts."""
    address = draw(of)
    count = draw(st.integers(1, 4))
    value = int(address)
    bits = 8 * (5 - count)
    numbers = [*address.packed[: count - 1], value & ((1 << bits) - 1)]
    forms = [
        draw(st.sampled_from(["{}", "0{:o}", "0x{:x}", "0X{:X}", "0x0000{:x}"])) for _ in numbers
    ]
    text = ".".join(form.format(number) for form, number in zip(forms, numbers, strict=True))
    return address, text + draw(st.sampled_from(["", "."]))


class TestAddresses:
    @given(spelling(addresses))
    def test_every_spelling_of_an_ipv4_address_is_parsed(
        self, spelt: tuple[IPv4Address, str]
    ) -> None:
        address, text = spelt
        assert parse_host(text) == address

    @given(addresses)
    def test_an_ipv4_mapped_address_is_unmapped(self, address: IPv4Address) -> None:
        assert parse_host(f"::ffff:{address}") == address
        assert (
            parse_host(f"0:0:0:0:0:ffff:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}")
            == address
        )

    @pytest.mark.parametrize(
        "text", ["127。0。0。1", "\uff11\uff12\uff17.0.0.1", "①②⑦.0.0.1", "127｡1"]
    )
    def test_digits_and_dots_of_other_scripts_are_normalized(self, text: str) -> None:
        assert parse_host(text) == IPv4Address("127.0.0.1")

    @pytest.mark.parametrize(
        "text",
        ["1.2.3.256", "1.2.3.4.5", "1.2.65536", "08.1", "0xg.1", "a.1", "1..1", "-1.2",
         "4294967296", "1.2.3.4..", "::1::", "1:2", "fe80::1%", "1.2.3.0x100"],
    )  # fmt: skip
    def test_a_host_that_ends_in_a_number_is_an_address_or_invalid(self, text: str) -> None:
        with pytest.raises(ValueError, match=r".*"):
            parse_host(text)


class TestNames:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("Example.ORG", "example.org"),
            ("example.org.", "example.org"),
            ("münchen.example", "xn--mnchen-3ya.example"),
            ("my_service", "my_service"),
            ("1and1.example", "1and1.example"),
            ("0x7f.example", "0x7f.example"),
        ],
    )
    def test_names_are_normalized(self, text: str, name: str) -> None:
        assert parse_host(text) == name

    @pytest.mark.parametrize(
        "text", ["", ".", "a..b", ".a", "a b", "%31.example", "a\\b", "a,b", "x" * 64, "a." * 130]
    )
    def test_invalid_names_are_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r".*"):
            parse_host(text)

    @pytest.mark.parametrize("name", ["localhost", "a.localhost"])
    def test_names_of_this_machine_are_private(self, name: str) -> None:
        assert is_private_name(name)

    @pytest.mark.parametrize("name", ["localhost.example", "notlocalhost", "internal.example"])
    def test_other_names_are_not_private(self, name: str) -> None:
        assert not is_private_name(name)


class TestPublic:
    @given(private_addresses)
    def test_private_ranges_are_not_public(self, address: IPv4Address) -> None:
        assert not is_public(address)

    @given(private_addresses)
    def test_ipv6_addresses_that_embed_a_private_one_are_not_public(
        self, address: IPv4Address
    ) -> None:
        value = int(address)
        mapped = IPv6Address(0xFFFF << 32 | value)
        compatible = IPv6Address(value)
        translated = IPv6Address(0xFFFF << 48 | value)
        nat64 = IPv6Address(0x64FF9B << 96 | value)
        local_nat64 = IPv6Address(0x64FF9B0001 << 80 | value)
        six_to_four = IPv6Address(0x2002 << 112 | value << 80 | 1)
        teredo = IPv6Address(0x20010000 << 96 | 0x08080808 << 64 | (value ^ 0xFFFFFFFF))
        teredo_server = IPv6Address(0x20010000 << 96 | value << 64 | 0xF7F7F7F7)
        for carrier in (
            mapped, compatible, translated, nat64, local_nat64, six_to_four, teredo, teredo_server
        ):  # fmt: skip
            assert not is_public(carrier)

    @pytest.mark.parametrize(
        "text",
        ["::", "::1", "fe80::1", "fe80::1%eth0", "2606:4700::1111%eth0", "fc00::1", "fd00:ec2::254",
         "fec0::1", "ff02::1", "2001:db8::1", "100::1", "3fff::1", "168.63.129.16",
         "100.100.100.200", "192.0.0.192", "192.0.2.1", "255.255.255.255", "192.88.99.1"],
    )  # fmt: skip
    def test_special_addresses_are_not_public(self, text: str) -> None:
        assert not is_public(ip_address(text))

    @pytest.mark.parametrize(
        "text",
        ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8",
         "64:ff9b::808:808", "2002:808:808::1"],
    )  # fmt: skip
    def test_other_addresses_are_public(self, text: str) -> None:
        assert is_public(ip_address(text))
