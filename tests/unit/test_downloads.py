"""Downloads that fail before they connect; the others are integration tests."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from secretary.app import Application
from secretary.config import Settings
from secretary.core.errors import AddressRefused, DownloadFailed
from secretary.network import DownloadLimits
from secretary.network.client import Network
from secretary.network.downloads import download


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/a", "file:///etc/passwd", "/etc/passwd", "a.pdf", ""]
)
async def test_a_refused_address_creates_no_file(tmp_path: Path, url: str) -> None:
    with pytest.raises(AddressRefused):
        await download(Network(), url, tmp_path / "new" / "file", limits=DownloadLimits())
    assert list(tmp_path.iterdir()) == []


async def test_an_unresolvable_name_is_retryable(tmp_path: Path) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError("Name or service not known")

    network = Network(resolve=resolve)
    url = "http://gone.example/a.pdf?key=SECRET"
    with pytest.raises(DownloadFailed) as caught:
        await download(network, url, tmp_path / "file", limits=DownloadLimits())
    assert caught.value.message == "gone.example cannot be reached"
    assert caught.value.details == {"host": "gone.example"}
    assert caught.value.retryable


def test_the_settings_set_the_limits() -> None:
    values = {"network": {"download_max_mb": 2, "download_timeout_sec": 5}}
    limits = Settings.model_validate(values).network.download_limits
    assert (limits.max_bytes, limits.total) == (2 * 1024 * 1024, timedelta(seconds=5))


def test_the_settings_set_the_allowed_hosts() -> None:
    settings = Settings.model_validate({"network": {"allow_hosts": ["10.0.0.1"]}})
    Application(settings).sources.network.check("http://10.0.0.1/")
    with pytest.raises(AddressRefused):
        Application(settings).sources.network.check("http://10.0.0.2/")
