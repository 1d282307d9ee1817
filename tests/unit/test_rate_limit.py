"""The rate limiter."""

from secretary.api.auth import MAX_CLIENTS, RateLimitState, TokenBucket


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_so_many_at_once_then_as_many_spread_over_a_minute() -> None:
    clock = Clock()
    allowance = TokenBucket(3, clock=clock)
    assert [allowance.take("ann").remaining for _ in range(3)] == [2, 1, 0]
    assert allowance.take("ann") == RateLimitState(False, 0, 20)
    clock.now = 19.9
    assert allowance.take("ann") == RateLimitState(False, 0, 1)
    clock.now = 20.0
    assert allowance.take("ann") == RateLimitState(True, 0, 0)


def test_each_has_an_allowance_of_its_own() -> None:
    allowance = TokenBucket(1, clock=Clock())
    assert allowance.take("ann").allowed
    assert not allowance.take("ann").allowed
    assert allowance.take("bob").allowed


def test_nobody_saves_up_more_than_a_minutes_worth() -> None:
    clock = Clock()
    allowance = TokenBucket(2, clock=clock)
    allowance.take("ann")
    clock.now = 3600.0
    assert allowance.peek("ann").remaining == 1


def test_looking_takes_nothing() -> None:
    allowance = TokenBucket(1, clock=Clock())
    assert allowance.peek("ann").allowed
    assert allowance.take("ann").allowed
    assert not allowance.peek("ann").allowed


def test_the_state_of_a_bounded_number_is_kept() -> None:
    allowance = TokenBucket(1, clock=Clock())
    for n in range(MAX_CLIENTS + 1):
        allowance.take(n)
    assert not allowance.peek(MAX_CLIENTS).allowed
    assert not allowance.peek(1).allowed
    assert allowance.peek(0).allowed
