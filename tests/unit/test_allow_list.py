import pytest

from secretary.network.addresses import AllowList, parse_allowed_host, parse_host


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("wiki.example.org", "wiki.example.org", 80),
        ("Wiki.Example.ORG.", "WIKI.example.org.", 8080),
        ("müller.example", "xn--mller-kva.example", 443),
        ("localhost:8080", "localhost", 8080),
        ("*.example.org", "a.b.example.org", 443),
        ("*.example.org:8443", "a.example.org", 8443),
        ("127.0.0.1", "0x7f.1", 80),
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("::1", "::1", 80),
        ("[::1]:8080", "0:0::1", 8080),
        ("[fd00::1]", "fd00::1", 80),
        ("10.0.0.0/8", "10.200.3.4", 1),
        ("10.0.0.0/8", "::ffff:10.1.1.1", 1),
        ("fd00::/8", "fd12::1", 443),
    ],
)
def test_an_entry_allows_matching_hosts(entry: str, host: str, port: int) -> None:
    assert AllowList(["other.example", entry]).allows(parse_host(host), port)


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("example.org", "a.example.org", 443),
        ("*.example.org", "example.org", 443),
        ("*.example.org", "badexample.org", 443),
        ("example.org", "example.org.evil.example", 443),
        ("localhost:8080", "localhost", 8081),
        ("127.0.0.1:8080", "127.0.0.1", 80),
        ("10.0.0.0/8", "11.0.0.1", 80),
        ("10.0.0.0/8", "10.example.org", 80),
        ("::1", "127.0.0.1", 80),
    ],
)
def test_an_entry_allows_no_other_host(entry: str, host: str, port: int) -> None:
    assert not AllowList([entry]).allows(parse_host(host), port)


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.", "*.10.0.0.1", "a.*.example", "http://example.org", "example.org/path", "a b",
     "example.org:", "example.org:0", "example.org:99999", "example.org:http", "10.0.0.1/8",
     "10.0.0.0/33", "[::1", "[::1]8080", "1.2.3.4.5", "user@example.org", "*.*.org"],
)  # fmt: skip
def test_the_error_names_a_malformed_entry(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a host, host:port") as caught:
        parse_allowed_host(entry)
    assert repr(entry) in str(caught.value)
