"""Which job starts next, without a store: with explicit queues and a fake clock."""

from collections.abc import Mapping
from typing import Any

from secretary.store import Capacity
from secretary.store.claims import AGEING, Candidate, FairScheduler, JobClass, Running

Waiting = Mapping[JobClass, list[Candidate]]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_levels(self, levels: float) -> None:
        self.now += AGEING.total_seconds() * levels


def job(key: str, arrival: int, user_id: str | None = None) -> Candidate:
    return Candidate(key, user_id, arrival)


def jobs(prefix: str, count: int, *, first: int = 0, user_id: str | None = None) -> list[Candidate]:
    return [job(f"{prefix}{n}", first + n, user_id) for n in range(count)]


def chosen(
    turns: FairScheduler, waiting: Waiting, running: Running | None = None, **wanted: Any
) -> list[str]:
    lines = {line: iter(candidates) for line, candidates in waiting.items()}
    taken = turns.choose(lines, Capacity(**{"slots": 1, **wanted}), running or Running())
    return [candidate.key for candidate in taken]


def one_by_one(
    turns: FairScheduler, waiting: dict[JobClass, list[Candidate]], count: int
) -> list[str]:
    """Claim one job this many times, as a worker with one slot does."""
    order: list[str] = []
    for _ in range(count):
        (key,) = chosen(turns, waiting)
        order.append(key)
        for line, candidates in waiting.items():
            waiting[line] = [candidate for candidate in candidates if candidate.key != key]
        for line in [line for line, candidates in waiting.items() if not candidates]:
            del waiting[line]
    return order


class TestOrder:
    def test_nothing_waits_nothing_is_chosen(self) -> None:
        assert chosen(FairScheduler(), {}, slots=5) == []
        assert chosen(FairScheduler(), {("pdf", 0): []}, slots=5) == []

    def test_no_slot_no_job(self) -> None:
        assert chosen(FairScheduler(), {("pdf", 0): jobs("p", 2)}, slots=0) == []

    def test_a_queue_is_served_from_its_head(self) -> None:
        assert chosen(FairScheduler(), {("pdf", 0): jobs("p", 5)}, slots=3) == ["p0", "p1", "p2"]

    def test_a_line_ends_without_harm(self) -> None:
        assert chosen(FairScheduler(), {("pdf", 0): jobs("p", 2)}, slots=9) == ["p0", "p1"]

    def test_queues_of_equal_priority_are_served_first_in_first_out(self) -> None:
        waiting = {
            ("pdf", 0): [job("p1", 1), job("p4", 4)],
            ("audio", 0): [job("a2", 2), job("a3", 3)],
        }
        assert chosen(FairScheduler(), waiting, slots=4) == ["p1", "a2", "a3", "p4"]

    def test_higher_priority_goes_first_though_it_came_last(self) -> None:
        waiting = {
            ("pdf", -1): [job("low", 1)],
            ("pdf", 0): [job("normal", 2)],
            ("audio", 7): [job("high", 3)],
        }
        assert chosen(FairScheduler(), waiting, slots=3) == ["high", "normal", "low"]


class TestAgeing:
    def test_a_waiting_queue_gains_priority_with_time_and_is_served_in_the_end(self) -> None:
        clock = Clock()
        turns = FairScheduler(clock)
        waiting = {("pdf", 0): jobs("low", 9), ("pdf", 3): jobs("high", 9, first=100)}
        assert chosen(turns, waiting) == ["high0"]
        clock.pass_levels(2.9)
        assert chosen(turns, waiting) == ["high0"]
        # Both were first seen at the same time, but the higher queue has been served since.
        clock.pass_levels(0.2)
        assert chosen(turns, waiting) == ["low0"]

    def test_the_wait_of_a_queue_restarts_when_it_is_served(self) -> None:
        clock = Clock()
        turns = FairScheduler(clock)
        waiting = {("pdf", 0): jobs("low", 9), ("pdf", 2): jobs("high", 9, first=100)}
        chosen(turns, waiting)
        clock.pass_levels(3)
        assert chosen(turns, waiting, slots=2) == ["high0", "low0"]
        assert chosen(turns, waiting) == ["high0"]

    def test_a_queue_goes_on_ageing_while_its_slots_are_full_and_others_are_filled(self) -> None:
        clock = Clock()
        turns = FairScheduler(clock)
        waiting = {("pdf", 0): jobs("low", 9), ("pdf", 3): jobs("high", 9, first=100)}
        chats = {("chat", 0): jobs("chat", 9)}
        wanted: dict[str, Any] = {"io_types": {"chat"}, "io_slots": 1}
        assert chosen(turns, waiting | chats, **wanted) == ["high0", "chat0"]
        clock.pass_levels(2.9)
        assert chosen(turns, waiting, **wanted) == ["high0"]
        assert chosen(turns, chats, **wanted, slots=0) == ["chat0"]
        clock.pass_levels(0.2)
        assert chosen(turns, waiting, **wanted) == ["low0"]

    def test_time_before_a_queue_had_jobs_does_not_count(self) -> None:
        clock = Clock()
        turns = FairScheduler(clock)
        high = {("pdf", 2): jobs("high", 9)}
        chosen(turns, high)
        clock.pass_levels(50)
        chosen(turns, high)
        assert chosen(turns, high | {("pdf", 0): jobs("low", 1, first=100)}) == ["high0"]


class TestUsers:
    def test_users_are_served_fairly_across_queues(self) -> None:
        waiting = {
            ("pdf", 0): jobs("ann", 4, user_id="ann"),
            ("audio", 0): jobs("bob", 2, first=100, user_id="bob"),
        }
        order = one_by_one(FairScheduler(), waiting, 6)
        assert order == ["ann0", "bob0", "ann1", "bob1", "ann2", "ann3"]

    def test_one_claim_of_many_jobs_serves_users_fairly(self) -> None:
        waiting = {
            ("pdf", 0): jobs("ann", 4, user_id="ann"),
            ("audio", 0): jobs("bob", 2, first=100, user_id="bob"),
        }
        assert chosen(FairScheduler(), waiting, slots=4) == ["ann0", "bob0", "ann1", "bob1"]

    def test_a_user_never_seen_goes_before_one_just_served(self) -> None:
        turns = FairScheduler()
        chosen(turns, {("pdf", 0): jobs("ann", 1, user_id="ann")})
        waiting = {
            ("pdf", 0): jobs("ann", 3, user_id="ann"),
            ("audio", 0): jobs("new", 1, first=100, user_id="new"),
        }
        assert chosen(turns, waiting) == ["new0"]

    def test_priority_counts_more_than_fairness(self) -> None:
        turns = FairScheduler()
        waiting = {
            ("pdf", 1): jobs("ann", 3, user_id="ann"),
            ("audio", 0): jobs("bob", 1, user_id="bob"),
        }
        assert chosen(turns, waiting, slots=4) == ["ann0", "ann1", "ann2", "bob0"]


class TestLimits:
    def test_no_more_of_a_type_are_chosen_than_may_run(self) -> None:
        running = Running()
        running.per_type["pdf"] = 1
        waiting = {("pdf", 9): jobs("p", 5), ("audio", 0): jobs("a", 5)}
        limits = {"max_per_type": {"pdf": 2}, "slots": 4}
        assert chosen(FairScheduler(), waiting, running, **limits) == ["p0", "a0", "a1", "a2"]

    def test_a_type_may_be_shut_altogether(self) -> None:
        assert chosen(FairScheduler(), {("pdf", 0): jobs("p", 5)}, max_per_type={"pdf": 0}) == []

    def test_the_queues_of_one_type_share_its_limit(self) -> None:
        waiting = {("pdf", 1): jobs("high", 2), ("pdf", 0): jobs("low", 2)}
        assert chosen(FairScheduler(), waiting, max_per_type={"pdf": 1}, slots=4) == ["high0"]

    def test_a_user_at_his_limit_is_stepped_over(self) -> None:
        running = Running()
        running.per_user["ann"] = 1
        line = [*jobs("ann", 3, user_id="ann"), *jobs("bob", 3, first=10, user_id="bob")]
        limits = {"max_per_user": 2, "slots": 9}
        assert chosen(FairScheduler(), {("pdf", 0): line}, running, **limits) == [
            "ann0",
            "bob0",
            "bob1",
        ]

    def test_jobs_without_a_user_know_no_limit_per_user(self) -> None:
        waiting = {("pdf", 0): jobs("p", 3)}
        assert chosen(FairScheduler(), waiting, max_per_user=1, slots=9) == ["p0", "p1", "p2"]

    def test_what_was_chosen_counts_as_running(self) -> None:
        running = Running()
        line = jobs("ann", 2, user_id="ann")
        chosen(FairScheduler(), {("pdf", 0): line}, running, slots=2)
        assert (running.per_type["pdf"], running.per_user["ann"]) == (2, 2)
