"""Texts with their embeddings, through the whole service, with a scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest

from ..llm_fixture import service_with_models
from ..llm_server import Reads, embeds, fails, gives, rejects, vector_of
from ..service_fixture import ServiceClient, running_service
from ..webhook_receiver import Receiver
from .test_chat_jobs import last_event

EMBED = "/api/rag/embed-text"
PARAGRAPH = "The quick brown fox jumps over the lazy dog. "
DOCUMENT = "# Animals\n\n" + "\n\n".join(
    f"## Section {number}\r\n\r\n{PARAGRAPH * 12}" for number in range(8)
)
#: As the client application sends a document.
REQUEST: dict[str, Any] = {
    "markdown": DOCUMENT,
    "document_id": "doc-7",
    "chunk_size": 1000,
    "chunk_overlap": 200,
    "embedding_model": "voyage-3-large",
    "embedding_dimensions": 2048,
    "metadata": {"fileName": "a.pdf", "libraryId": "lib", "userEmail": "a@example.org"},
}


async def embedded(service: ServiceClient, **fields: Any) -> dict[str, Any]:
    response = await service.client.post(EMBED, json=fields)
    assert response.status_code == 200, response.text
    document: dict[str, Any] = response.json()
    assert document["status"] == "success"
    return document


async def refused(service: ServiceClient, **fields: Any) -> dict[str, Any]:
    response = await service.client.post(EMBED, json=fields)
    assert response.status_code >= 400, response.text
    error: dict[str, Any] = response.json()["error"]
    return error | {"status": response.status_code}


class TestADocument:
    async def test_each_chunk_comes_with_its_own_vector(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, embeds()) as (service, server):
            document = await embedded(service, **REQUEST)
        data = document["data"]
        chunks = data["chunks"]
        assert len(chunks) == data["total_chunks"] > 5
        assert [chunk["chunk_index"] for chunk in chunks] == list(range(len(chunks)))
        for chunk in chunks:
            assert chunk["text"] == DOCUMENT[chunk["start_char"] : chunk["end_char"]]
            assert len(chunk["text"]) <= 1000
            assert chunk["embedding"] == pytest.approx(vector_of(chunk["text"], 2048))
            assert chunk["metadata"] == {} and chunk["document_id"] == "doc-7"
        assert chunks[1]["heading_context"].startswith("Animals > Section")
        assert (data["document_id"], data["metadata"]) == ("doc-7", REQUEST["metadata"])
        assert data["embedding_model"] == server.requests[0]["model"] == "voyage-3-large"
        assert data["embedding_dimensions"] == server.requests[0]["dimensions"] == 2048
        assert data["created_at"].endswith("Z")
        assert document["process"]["llm_info"]["total_tokens"] == 10 * len(chunks)

    async def test_many_chunks_are_sent_in_batches_and_at_once(self, tmp_path: Path) -> None:
        text = "\n\n".join(f"Paragraph {number}" for number in range(400))
        async with service_with_models(tmp_path, embeds(), max_concurrent=3) as (service, server):
            data = (await embedded(service, markdown=text, chunk_size=20, chunk_overlap=0))["data"]
        assert data["total_chunks"] == 400
        assert [len(request["input"]) for request in server.requests] == [64] * 6 + [16]
        assert server.most_at_once <= 3
        for chunk in data["chunks"]:
            assert chunk["embedding"] == pytest.approx(vector_of(chunk["text"], 8))
        assert "".join(chunk["text"] for chunk in data["chunks"]) == text

    async def test_the_job_document_holds_no_vectors(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, embeds()) as (service, _):
            response = await service.client.post(EMBED, json={**REQUEST, "async": True})
            assert response.status_code == 202, response.text
            job = await service.ended(response.json()["job_id"])
            chunks = job["results"]["chunks"]
            assert chunks[0]["embedding"] == pytest.approx(vector_of(chunks[0]["text"], 2048))
            assert job["results"]["total_chunks"] == len(chunks)
            files = (await service.get(f"/api/jobs/{job['job_id']}/files")).json()["data"]
            assert files["files"] == [], "they are results, not files for people"

    async def test_a_callback_gets_the_chunks(self, tmp_path: Path) -> None:
        with Receiver().running() as receiver:
            groups = {"network": {"allow_hosts": [receiver.host]}}
            async with service_with_models(tmp_path, embeds(), groups=groups) as (service, _):
                body = {**REQUEST, "callback_url": receiver.url()}
                response = await service.client.post(EMBED, json=body)
                assert response.status_code == 202, response.text
                event = await last_event(receiver)
        assert len(event["data"]["chunks"]) == event["data"]["total_chunks"]


class TestAQuestion:
    async def test_a_text_shorter_than_a_chunk_is_one_chunk(self, tmp_path: Path) -> None:
        question = "What does a fox do?\n\n# And a dog?\n\nTell me."
        fields = {"markdown": question, "chunk_size": len(question) + 100, "chunk_overlap": 0}
        fields |= {"embedding_dimensions": 16, "metadata": {"type": "query"}}
        async with service_with_models(tmp_path, embeds()) as (service, _):
            data = (await embedded(service, **fields))["data"]
        (chunk,) = data["chunks"]
        assert chunk["text"] == question and len(chunk["embedding"]) == 16
        assert (chunk["start_char"], chunk["end_char"]) == (0, len(question))
        assert data["document_id"] is None and data["metadata"] == {"type": "query"}

    async def test_without_dimensions_the_model_decides(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, embeds(24)) as (service, server):
            data = (await embedded(service, markdown="A question"))["data"]
        assert data["embedding_dimensions"] == 24 and data["embedding_model"] == "embedder"
        assert "dimensions" not in server.requests[0]


class TestTheModel:
    async def test_settings_are_sent_along(self, tmp_path: Path) -> None:
        parameters = {"output_dimension": 4}
        async with service_with_models(tmp_path, embeds(4), embedding_parameters=parameters) as (
            service,
            server,
        ):
            await embedded(service, markdown="x")
        assert server.requests[0]["output_dimension"] == 4

    async def test_one_without_the_parameter_is_asked_without(self, tmp_path: Path) -> None:
        reply = rejects("dimensions", embeds(12))
        async with service_with_models(tmp_path, reply) as (service, server):
            data = (await embedded(service, markdown="x", embedding_dimensions=12))["data"]
            assert data["embedding_dimensions"] == 12 and len(server.requests) == 2
            error = await refused(service, markdown="y", embedding_dimensions=13)
        assert error["code"] == "UPSTREAM_FAILED"
        assert "12 dimensions; 13 were requested" in error["message"]

    @pytest.mark.parametrize(
        "data",
        [
            [],
            [{"index": 0, "embedding": [0.1, 0.2]}],
            [{"index": 0, "embedding": [0.1] * 4}, {"index": 1, "embedding": [0.1] * 4}],
            [{"index": 3, "embedding": [0.1] * 4}],
            [{"index": 0, "embedding": [0.1, None, 0.1, 0.1]}],
            [{"index": 0, "embedding": [0.1, float("nan"), 0.1, 0.1]}],
            [{"index": 0, "embedding": [0.1, float("inf"), 0.1, 0.1]}],
            [{"index": 0, "embedding": ["0.1"] * 4}],
            [{"index": 0}],
            {"not": "a list"},
        ],
    )
    async def test_vectors_that_cannot_be_used_are_an_error(
        self, tmp_path: Path, data: Any
    ) -> None:
        reply = gives(json.dumps({"data": data}).encode())
        async with service_with_models(tmp_path, reply) as (service, _):
            error = await refused(service, markdown="x", embedding_dimensions=4, max_attempts=1)
        assert (error["status"], error["code"]) == (502, "UPSTREAM_FAILED")
        assert "vectors" in error["message"]

    async def test_batches_of_different_lengths_are_an_error(self, tmp_path: Path) -> None:
        lengths = iter([4, 5, 4, 5])

        def reply(request: dict[str, Any]) -> Any:
            return embeds(next(lengths)).reply(request)

        async with service_with_models(tmp_path, Reads(reply), max_concurrent=1) as (service, _):
            text = "\n\n".join(f"Paragraph {number}" for number in range(100))
            fields = {"markdown": text, "chunk_size": 20, "chunk_overlap": 0}
            error = await refused(service, **fields)
        assert "different lengths: 4, 5" in error["message"]

    async def test_without_one_the_error_names_the_setting(self, tmp_path: Path) -> None:
        async with running_service(tmp_path, llm={"api_key": "x", "model": "chatty"}) as service:
            error = await refused(service, **REQUEST)
        assert (error["status"], error["code"]) == (503, "ENGINE_UNAVAILABLE")
        assert "set llm.embedding_model" in error["message"]


class TestTheCache:
    async def test_the_same_text_is_embedded_once(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, embeds()) as (service, server):
            first = await embedded(service, **REQUEST)
            sent = len(server.requests)
            again = await embedded(service, **REQUEST)
            assert len(server.requests) == sent and again["process"]["is_from_cache"]
            assert again["data"]["chunks"] == first["data"]["chunks"]
            await embedded(service, **REQUEST, useCache=False)
            assert len(server.requests) == 2 * sent
            await embedded(service, **{**REQUEST, "embedding_model": "other"})
            assert len(server.requests) == 3 * sent

    async def test_a_restarted_job_asks_only_for_what_is_missing(self, tmp_path: Path) -> None:
        calls = 0

        def reply(request: dict[str, Any]) -> Any:
            nonlocal calls
            calls += 1
            return fails("400 Bad Request", "no") if calls == 2 else embeds().reply(request)

        text = "\n\n".join(f"Paragraph {number}" for number in range(100))
        async with service_with_models(tmp_path, Reads(reply), max_concurrent=1) as (service, _):
            fields = {"markdown": text, "chunk_size": 20, "chunk_overlap": 0}
            job = await service.ended(await service.submit("embedding", **fields))
            assert job["status"] == "failed" and calls == 2
            response = await service.client.post(f"/api/jobs/{job['job_id']}/restart")
            assert response.is_success, response.text
            job = await service.ended(job["job_id"])
            assert job["results"]["total_chunks"] == 100 and calls == 3


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "markdown: Field required"),
        ({"markdown": " \n"}, "markdown: "),
        ({"markdown": 7}, "markdown: "),
        ({"markdown": "x", "chunk_size": 0}, "chunk_size: "),
        ({"markdown": "x", "chunk_size": 10, "chunk_overlap": 10}, "chunk_overlap: "),
        ({"markdown": "x", "chunk_overlap": -1}, "chunk_overlap: "),
        ({"markdown": "x", "embedding_dimensions": 0}, "embedding_dimensions: "),
        ({"markdown": "x", "metadata": [1]}, "metadata: "),
    ],
)
async def test_a_field_that_is_wrong_is_a_400_that_names_it(
    tmp_path: Path, fields: dict[str, Any], named: str
) -> None:
    async with running_service(tmp_path) as service:
        error = await refused(service, **fields)
    assert error["status"] == 400 and named in error["message"]


async def test_a_text_of_too_many_chunks_is_refused_before_any_request(tmp_path: Path) -> None:
    async with service_with_models(tmp_path, embeds()) as (service, server):
        error = await refused(service, markdown="a " * 20_000, chunk_size=2, chunk_overlap=0)
        assert (error["status"], error["code"]) == (413, "FILE_TOO_LARGE")
        assert "larger chunk_size" in error["message"] and server.requests == []
