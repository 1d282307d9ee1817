"""Which job starts next, in any sequence of events: limits and order hold, and no queue starves."""

from collections import Counter
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from secretary.store import Capacity
from secretary.store.claims import AGEING, Candidate, FairScheduler, JobClass, Running

TYPES = ("pdf", "audio", "video")
USERS = (None, "ann", "ben", "eve")
PRIORITIES = (-2, 0, 3)
MAX_PER_TYPE = {"video": 1, "audio": 2}
MAX_PER_USER = 3
#: By then, ageing has raised a queue that was never served above all others.
PATIENCE = max(PRIORITIES) - min(PRIORITIES) + 2


class Claims(RuleBasedStateMachine):
    """Workers claim from the queues that a store would show them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.turns = FairScheduler(lambda: self.now)
        self.lines: dict[JobClass, list[Candidate]] = {}
        self.running: list[tuple[JobClass, Candidate]] = []
        self.keys = count()
        #: How long a queue could have been served and was not, in levels of ageing.
        self.passed_over: Counter[JobClass] = Counter()

    @rule(
        job_type=st.sampled_from(TYPES),
        priority=st.sampled_from(PRIORITIES),
        user=st.sampled_from(USERS),
        many=st.integers(1, 4),
    )
    def jobs_come(self, job_type: str, priority: int, user: str | None, many: int) -> None:
        for _ in range(many):
            key = next(self.keys)
            line = self.lines.setdefault((job_type, priority), [])
            line.append(Candidate(key, user, key))

    @rule(slots=st.integers(0, 4), ages=st.booleans())
    def a_worker_claims(self, slots: int, ages: bool) -> None:
        if ages:
            self.now += AGEING.total_seconds() + 1
        wanted = Capacity(slots=slots, max_per_type=MAX_PER_TYPE, max_per_user=MAX_PER_USER)
        startable = {line for line in self.lines if self.could_start(line)}
        shown = {line: iter(list(waiting)) for line, waiting in self.lines.items()}
        chosen = self.turns.choose(shown, wanted, self.as_running())
        assert len({candidate.key for candidate in chosen}) == len(chosen) <= slots
        served = {self.take(candidate) for candidate in chosen}
        if len(chosen) < slots:
            still_startable = [line for line in self.lines if self.could_start(line)]
            assert not still_startable, "a slot stays empty while a job could start"
        for line in list(self.passed_over):
            if line in served or line not in startable:
                del self.passed_over[line]
        if slots and ages:
            self.passed_over.update(startable - served)

    @rule(at=st.integers(0, 50))
    def a_job_ends(self, at: int) -> None:
        if self.running:
            del self.running[at % len(self.running)]

    @invariant()
    def limits_hold(self) -> None:
        running = self.as_running()
        assert all(running.per_type[name] <= most for name, most in MAX_PER_TYPE.items())
        assert all(n <= MAX_PER_USER for user, n in running.per_user.items() if user)

    @invariant()
    def nobody_starves(self) -> None:
        """Each queue that can be served is served once before any is served again."""
        most = PATIENCE + len(TYPES) * len(PRIORITIES)
        assert all(times <= most for times in self.passed_over.values())

    def take(self, chosen: Candidate) -> JobClass:
        line = next(line for line, waiting in self.lines.items() if chosen in waiting)
        earlier = self.lines[line][: self.lines[line].index(chosen)]
        # Only users at their limit are skipped, so no earlier job of the same user is.
        assert all(one.user_id != chosen.user_id for one in earlier)
        self.lines[line].remove(chosen)
        if not self.lines[line]:
            del self.lines[line]
        self.running.append((line, chosen))
        return line

    def could_start(self, line: JobClass) -> bool:
        running = self.as_running()
        if running.per_type[line[0]] >= MAX_PER_TYPE.get(line[0], 10**9):
            return False
        return any(
            one.user_id is None or running.per_user[one.user_id] < MAX_PER_USER
            for one in self.lines[line]
        )

    def as_running(self) -> Running:
        running = Running()
        for line, candidate in self.running:
            running.per_type[line[0]] += 1
            running.per_user[candidate.user_id] += 1
        return running


TestClaims = Claims.TestCase
TestClaims.settings = settings(max_examples=30, stateful_step_count=40)
