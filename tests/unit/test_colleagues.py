from dataclasses import replace
from datetime import timedelta

from secretary.colleagues import EXPECTED_BACK_SECONDS, Colleagues
from secretary.job import utc_now
from secretary.store import WorkerInfo
from tests.contract.given import worker


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def a_worker(*handles: str) -> WorkerInfo:
    return replace(worker("other-1"), handles=handles)


def test_what_another_can_do_and_this_one_cannot_is_left_to_it() -> None:
    colleagues = Colleagues({"pdf", "office"})
    colleagues.look_at([a_worker("pdf", "future"), a_worker("office")])
    assert set(colleagues.left_to_them) == {"future"}


def test_what_nobody_can_do_is_left_to_nobody() -> None:
    colleagues = Colleagues({"pdf"})
    colleagues.look_at([a_worker("pdf")])
    assert not colleagues.left_to_them


def test_the_dead_do_nothing() -> None:
    colleagues = Colleagues({"pdf"})
    colleagues.look_at([replace(a_worker("future"), seen_at=utc_now() - timedelta(hours=1))])
    assert not colleagues.left_to_them


def test_one_that_leaves_is_expected_back_for_a_while() -> None:
    clock = Clock()
    colleagues = Colleagues({"pdf"}, clock=clock)
    colleagues.look_at([a_worker("future")])
    clock.now = EXPECTED_BACK_SECONDS - 1
    colleagues.look_at([])
    assert set(colleagues.left_to_them) == {"future"}
    clock.now = EXPECTED_BACK_SECONDS
    colleagues.look_at([])
    assert not colleagues.left_to_them
