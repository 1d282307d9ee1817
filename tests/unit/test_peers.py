from dataclasses import replace
from datetime import timedelta

from secretary.core.job import utc_now
from secretary.store import WorkerInfo
from secretary.worker.worker import EXPECTED_BACK_SECONDS, PeerCapabilities
from tests.contract.factories import worker


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def a_worker(*handles: str) -> WorkerInfo:
    return replace(worker("other-1"), handles=handles)


def test_what_another_can_do_and_this_one_cannot_is_left_to_it() -> None:
    peers = PeerCapabilities({"pdf", "office"})
    peers.update([a_worker("pdf", "future"), a_worker("office")])
    assert set(peers.job_types) == {"future"}


def test_what_nobody_can_do_is_left_to_nobody() -> None:
    peers = PeerCapabilities({"pdf"})
    peers.update([a_worker("pdf")])
    assert not peers.job_types


def test_the_dead_do_nothing() -> None:
    peers = PeerCapabilities({"pdf"})
    peers.update([replace(a_worker("future"), seen_at=utc_now() - timedelta(hours=1))])
    assert not peers.job_types


def test_one_that_leaves_is_expected_back_for_a_while() -> None:
    clock = Clock()
    peers = PeerCapabilities({"pdf"}, clock=clock)
    peers.update([a_worker("future")])
    clock.now = EXPECTED_BACK_SECONDS - 1
    peers.update([])
    assert set(peers.job_types) == {"future"}
    clock.now = EXPECTED_BACK_SECONDS
    peers.update([])
    assert not peers.job_types
