import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from secretary.core.job import (
    AccessControl,
    Batch,
    Job,
    JobStatus,
    Webhook,
    flatten_parameters,
    new_id,
    normalize_parameters,
    utc_now,
)

KNOWN = frozenset({"url", "pages"})

names = st.sampled_from(["url", "pages", "x", "y", "z"])
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3))
flat = st.dictionaries(names, leaves, max_size=4)


def nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda outer, extra: {**outer, "extra": extra}, flat, inner)


#: Parameters as clients send them: `extra` inside `extra`, or something odd in its place.
parameters = st.one_of(
    st.recursive(flat, nested, max_leaves=4),
    st.builds(lambda outer, odd: {**outer, "extra": odd}, flat, leaves),
)


def values_by_name(document: Any) -> Iterator[tuple[str, Any]]:
    """Every name with the value that counts: the outermost one."""
    seen = set()
    while isinstance(document, dict):
        for name, value in document.items():
            if name not in seen and not (name == "extra" and isinstance(value, dict)):
                seen.add(name)
                yield name, value
        document = document.get("extra")


class TestParameters:
    @given(parameters)
    def test_tidying_twice_changes_nothing_more(self, sent: dict[str, Any]) -> None:
        once = normalize_parameters(sent, KNOWN)
        assert normalize_parameters(once, KNOWN) == once

    @given(parameters)
    def test_tidying_loses_no_name_and_no_value(self, sent: dict[str, Any]) -> None:
        normalized = dict(values_by_name(normalize_parameters(sent, KNOWN)))
        # An empty and a missing `extra` are the same.
        expected = {k: v for k, v in values_by_name(sent) if (k, v) != ("extra", None)}
        assert {k: v for k, v in normalized.items() if (k, v) != ("extra", None)} == expected

    @given(parameters)
    def test_a_handler_reads_the_same_before_and_after_tidying(self, sent: dict[str, Any]) -> None:
        assert flatten_parameters(normalize_parameters(sent, KNOWN)) == flatten_parameters(sent)

    @given(parameters)
    def test_without_declared_parameters_nothing_moves_into_extra(
        self, sent: dict[str, Any]
    ) -> None:
        tidy = normalize_parameters(sent, None)
        assert {k for k in tidy if k != "extra"} == {k for k in sent if k != "extra"}

    def test_an_undeclared_name_moves_under_extra(self) -> None:
        tidy = normalize_parameters({"url": "a", "colour": "red"}, KNOWN)
        assert tidy == {"url": "a", "extra": {"colour": "red"}}

    def test_the_top_level_wins_over_extra(self) -> None:
        sent = {"url": "outer", "extra": {"url": "inner", "extra": {"url": "innermost"}}}
        assert flatten_parameters(sent) == {"url": "outer"}

    def test_nested_extras_become_one(self) -> None:
        sent = {"extra": {"x": 1, "extra": {"x": 2, "y": 3}}}
        assert normalize_parameters(sent, KNOWN) == {"extra": {"x": 1, "y": 3}}


class TestIds:
    def test_an_id_names_its_kind_and_is_a_uuid(self) -> None:
        assert re.fullmatch(r"job-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", new_id("job"))
        assert new_id("batch").startswith("batch-")

    def test_ids_are_never_the_same(self) -> None:
        assert len({new_id("job") for _ in range(10_000)}) == 10_000


class TestAccess:
    @pytest.mark.parametrize("user", ["ann", "reader", "writer", "boss", None])
    def test_those_on_the_lists_and_operators_may_read(self, user: str | None) -> None:
        assert shared_job().may_read(user)

    def test_a_stranger_may_not_read(self) -> None:
        assert not shared_job().may_read("eve")

    @pytest.mark.parametrize(
        ("user", "may"),
        [
            ("ann", True),
            ("writer", True),
            ("boss", True),
            (None, True),
            ("reader", False),
            ("eve", False),
        ],
    )
    def test_who_may_change(self, user: str | None, may: bool) -> None:
        assert shared_job().may_write(user) is may

    def test_everybody_may_read_what_is_public_but_not_change_it(self) -> None:
        job = Job(user_id="ann", access_control=AccessControl(visibility="public"))
        assert job.may_read("eve")
        assert not job.may_write("eve")

    def test_what_belongs_to_nobody_is_everybodys(self) -> None:
        assert Job().may_read("eve")
        assert Job().may_write("eve")


def shared_job() -> Job:
    access = AccessControl(
        read_access=("reader",), write_access=("writer",), admin_access=("boss",)
    )
    return Job(user_id="ann", access_control=access)


class TestBatchStatus:
    @pytest.mark.parametrize(
        ("counts", "status"),
        [
            ({"pending": 2}, "pending"),
            ({"pending": 1, "processing": 1}, "processing"),
            ({"pending": 1, "completed": 1}, "processing"),
            ({"completed": 1, "failed": 1}, "completed"),
            ({"failed": 2}, "failed"),
            ({"failed": 1, "cancelled": 1}, "failed"),
            ({}, "completed"),
        ],
    )
    def test_the_status_follows_from_the_jobs(self, counts: dict[str, int], status: str) -> None:
        started = set(counts) != {"pending"}
        batch = Batch(
            counts={JobStatus(name): n for name, n in counts.items()},
            started_at=utc_now() if started else None,
        )
        assert batch.status == status

    def test_a_batch_whose_jobs_were_requeued_has_still_started(self) -> None:
        batch = Batch(counts={JobStatus.PENDING: 2}, started_at=utc_now())
        assert batch.status == "processing"

    def test_the_counters_of_the_document_add_up(self) -> None:
        counts = dict(zip(JobStatus, [1, 2, 3, 4, 5], strict=True))
        document = Batch(counts=counts).document()
        assert document["total_jobs"] == 15
        assert [document[f"{status}_jobs"] for status in JobStatus] == [1, 2, 3, 4, 5]

    def test_a_batch_without_a_name_is_called_by_its_id(self) -> None:
        batch = Batch()
        assert batch.document()["batch_name"] == batch.batch_id


class TestDocument:
    WEBHOOK = Webhook.model_validate(
        {
            "url": "https://example.org/hook",
            "token": "SECRET-token",
            "secret": "SECRET-key",
            "headers": {"Authorization": "Bearer SECRET-header"},
            "jobId": "mine",
            "unknown": "SECRET-unknown",
        }
    )

    def test_no_secret_of_a_webhook_is_shown(self) -> None:
        for owner in (Job(webhook=self.WEBHOOK), Batch(webhook=self.WEBHOOK)):
            document = owner.document()
            assert "SECRET" not in str(document)
            assert document["webhook"]["url"] == "https://example.org/hook"
            assert document["webhook"]["jobId"] == "mine"
            assert document["webhook"]["headers"] == {"Authorization": None}

    def test_times_are_in_utc_with_a_z(self) -> None:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", Job().document()["created_at"])

    def test_parts_can_be_left_out(self) -> None:
        assert "logs" not in Job().document(without=frozenset({"logs"}))

    def test_the_batch_flag_has_its_wire_name(self) -> None:
        document = Batch(is_active=False).document()
        assert document["isActive"] is False
        assert "is_active" not in document

    def test_a_job_cannot_be_changed(self) -> None:
        job = Job()
        with pytest.raises(ValidationError, match="frozen"):
            job.status = JobStatus.COMPLETED
