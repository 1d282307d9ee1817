"""Language models over a real connection to a scripted endpoint."""

import asyncio
import base64
import json
import logging
import pickle
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

import pytest

from secretary.core.errors import EngineUnavailable, JobFailed, UpstreamFailed, UpstreamRefused
from secretary.core.job import ResourceCalculator
from secretary.llm import Endpoints, Llm, LlmOptions, page_markdown

from ..llm_fixture import scripted_llm
from ..llm_server import (
    KEY,
    LlmServer,
    Reply,
    echoes_the_key,
    fails,
    gives,
    hangs,
    hangs_up,
    llm_server,
    says,
)

JPEG = b"\xff\xd8\xff a picture"
AT_ONCE = {"Retry_After_Ms": "1"}


async def failure_of(*replies: Reply, **options: Any) -> tuple[JobFailed, LlmServer]:
    async with scripted_llm(*replies, **options) as (server, llm):
        with pytest.raises(JobFailed) as caught:
            await llm.read_picture(JPEG)
        return caught.value, server


class TestAPicture:
    async def test_the_answer_of_the_model_is_the_page(self) -> None:
        async with scripted_llm(says("# Title\n\nText")) as (_, llm):
            assert await llm.read_picture(JPEG) == "# Title\n\nText"

    async def test_the_request_carries_picture_model_and_key(self) -> None:
        async with scripted_llm(says("Text"), parameters={"temperature": 0}) as (server, llm):
            await llm.read_picture(JPEG, language="deu", context="An invoice")
        (request,) = server.requests
        assert (request["model"], request["temperature"]) == ("scripted", 0)
        assert request["headers"]["authorization"] == f"Bearer {KEY}"
        text, picture = request["messages"][0]["content"]
        kind, _, data = picture["image_url"]["url"].partition(",")
        assert (kind, base64.b64decode(data)) == ("data:image/jpeg;base64", JPEG)
        assert "this language: deu" in text["text"]
        assert "About the document: An invoice" in text["text"]

    async def test_a_server_without_keys_is_asked_without_ours(self) -> None:
        async with scripted_llm(says("Text"), api_key=None) as (server, llm):
            await llm.read_picture(JPEG)
        assert server.requests[0]["headers"]["authorization"] == "Bearer none"

    async def test_proxies_of_the_environment_are_not_used(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        async with scripted_llm(says("Text")) as (_, llm):
            assert await llm.read_picture(JPEG) == "Text"

    async def test_a_blank_page_is_empty_and_no_failure(self) -> None:
        async with scripted_llm(says("(Blank page).")) as (_, llm):
            assert await llm.read_picture(JPEG) == ""

    async def test_what_the_model_thought_is_no_part_of_the_page(self) -> None:
        async with scripted_llm(says("<think>Hm.\nA title?</think>\n\n# Title")) as (_, llm):
            assert await llm.read_picture(JPEG) == "# Title"


@pytest.mark.parametrize(
    ("answer", "page"),
    [
        ("```markdown\n# Title\n```", "# Title"),
        ("```md\n# Title\n\n```python\n1\n```\n```\n", "# Title\n\n```python\n1\n```"),
        ("```\nText\n```", "Text"),
        ("```python\n1\n```", "```python\n1\n```"),
        ("```\n1\n```\nText\n```\n2\n```", "```\n1\n```\nText\n```\n2\n```"),
        ("Text\n```\n1\n```", "Text\n```\n1\n```"),
    ],
)
def test_only_a_code_fence_around_the_whole_answer_is_removed(answer: str, page: str) -> None:
    assert page_markdown(answer) == page


class TestAccounting:
    async def test_each_request_is_counted_for_its_job(self) -> None:
        resources = ResourceCalculator()
        async with llm_server(says("Text")) as server:
            endpoints = Endpoints(server.options())
            llm, other = Llm(endpoints, resources), Llm(endpoints)
            await asyncio.gather(*(each.read_picture(JPEG) for each in (llm, llm, other)))
            await endpoints.close()
        info = llm.info()
        assert info["total_tokens"] == 240
        assert [request.pop("duration_ms") >= 0 for request in info["requests"]] == [True, True]
        assert info["requests"][0] == {
            "model": "scripted", "purpose": "vision", "input_tokens": 100, "output_tokens": 20,
            "tokens": 120,
        }  # fmt: skip
        assert resources.used == {
            "llm_requests": 2, "llm_input_tokens": 200, "llm_output_tokens": 40,
        }  # fmt: skip
        assert len(other.info()["requests"]) == 1

    async def test_an_answer_of_no_use_has_cost_something_too(self) -> None:
        async with scripted_llm(says("Te", finish_reason="length")) as (_, llm):
            with pytest.raises(UpstreamRefused):
                await llm.read_picture(JPEG)
            assert llm.info()["total_tokens"] == 120

    async def test_an_endpoint_without_token_counts_works(self) -> None:
        async with scripted_llm(says("Text", usage=False)) as (_, llm):
            await llm.read_picture(JPEG)
            assert llm.info()["total_tokens"] == 0


class TestTriesAgain:
    async def test_after_429_when_the_endpoint_says_so(self) -> None:
        wait = fails("429 Too Many Requests", "slow down", Retry_After="1")
        async with scripted_llm(wait, says("Text")) as (server, llm):
            started = time.monotonic()
            assert await llm.read_picture(JPEG) == "Text"
        assert time.monotonic() - started >= 1
        assert len(server.requests) == 2

    async def test_after_500_twice(self) -> None:
        broken = fails("500 Internal Server Error", **AT_ONCE)
        async with scripted_llm(broken, broken, says("Text")) as (server, llm):
            assert await llm.read_picture(JPEG) == "Text"
        assert len(server.requests) == 3

    async def test_after_a_lost_connection(self) -> None:
        async with scripted_llm(hangs_up, says("Text")) as (_, llm):
            assert await llm.read_picture(JPEG) == "Text"

    @pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Unavailable"])
    async def test_not_for_ever_and_the_job_may_come_again(self, status: str) -> None:
        error, server = await failure_of(fails(status, "Out of breath", **AT_ONCE))
        assert isinstance(error, UpstreamFailed) and error.retryable
        assert len(server.requests) == 4
        assert error.message == f"The language model gave no answer ({status[:3]}): Out of breath"
        assert error.details == {"status": int(status[:3])}

    async def test_a_long_wait_is_left_to_the_job(self) -> None:
        error, server = await failure_of(fails("429 Too Many", Retry_After="600"))
        assert error.retry_after == timedelta(minutes=10)
        assert len(server.requests) == 1

    async def test_an_endless_wait_is_cut(self) -> None:
        error, _ = await failure_of(fails("429 Too Many", Retry_After="99999999"))
        assert error.retry_after == timedelta(hours=1)

    async def test_not_when_the_money_is_gone(self) -> None:
        body = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
        gone = gives(
            json.dumps(body).encode(), status="429 Too Many", headers={"Retry-After-Ms": "1"}
        )
        error, _ = await failure_of(gone)
        assert isinstance(error, UpstreamRefused)


class TestFailures:
    async def test_without_a_model_it_says_what_to_set(self) -> None:
        with pytest.raises(EngineUnavailable, match=r"llm\.model or llm\.vision_model") as caught:
            await Llm().read_picture(JPEG)
        assert "llm.base_url" in caught.value.message
        with pytest.raises(EngineUnavailable):
            Llm().model("vision")

    @pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
    async def test_a_refused_key_is_a_matter_of_the_settings(self, status: str) -> None:
        error, server = await failure_of(fails(status, f"Incorrect API key: {KEY}"))
        assert isinstance(error, EngineUnavailable)
        assert error.message == (
            "The endpoint of the language model does not accept the API key"
            f" ({status[:3]}): see llm.api_key"
        )
        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        "status", ["400 Bad Request", "404 Not Found", "413 Too Large", "422 Unprocessable"]
    )
    async def test_what_would_be_refused_again_is_not_asked_again(self, status: str) -> None:
        error, server = await failure_of(fails(status, "This model cannot see.\n" + "x" * 1000))
        assert isinstance(error, UpstreamRefused) and not error.retryable
        assert f"refuses the request ({status[:3]}): This model cannot see. xxx" in error.message
        assert len(error.message) < 400
        assert len(server.requests) == 1

    async def test_a_redirect_is_not_followed(self) -> None:
        away = gives(b"", status="307 Temporary Redirect", headers={"Location": "/elsewhere"})
        error, server = await failure_of(away)
        assert isinstance(error, UpstreamRefused)
        assert len(server.requests) == 1

    async def test_the_page_of_a_proxy_is_not_repeated(self) -> None:
        error, _ = await failure_of(gives(b"<html>Not here</html>", status="404 Not Found"))
        assert error.message == "The endpoint of the language model refuses the request (404)"

    async def test_a_server_that_hangs_is_given_up(self) -> None:
        error, server = await failure_of(hangs, timeout_sec=0.3)
        assert isinstance(error, UpstreamFailed) and error.retryable
        assert "did not answer in 0.3 s: see llm.timeout_sec" in error.message
        assert len(server.requests) == 1

    async def test_a_server_that_is_not_there_is_named_by_its_setting(self) -> None:
        async with llm_server(says("Text")) as server:
            endpoints = Endpoints(server.options())
        with pytest.raises(UpstreamFailed) as caught:
            await Llm(endpoints).read_picture(JPEG)
        await endpoints.close()
        text = "The endpoint of the language model cannot be reached: see llm.base_url"
        assert caught.value.message == text

    @pytest.mark.parametrize("body", [b"{", b"", b"[]", b'{"choices": 7}', b"<html>Welcome</html>"])
    async def test_what_is_no_answer_is_no_page(self, body: bytes) -> None:
        error, _ = await failure_of(gives(body))
        assert isinstance(error, UpstreamFailed) and error.retryable
        assert "cannot be read" in error.message

    async def test_an_error_in_a_good_answer_is_an_error(self) -> None:
        error, _ = await failure_of(gives(b'{"error": {"message": "No capacity"}}'))
        assert error.message == "The language model gave no answer: No capacity"

    @pytest.mark.parametrize("content", [None, "", "  \n", "<think>Hm</think>"])
    async def test_an_empty_answer_is_no_blank_page(self, content: str | None) -> None:
        error, _ = await failure_of(says(content))
        assert error.message == "The language model gave an empty answer"

    @pytest.mark.parametrize(
        "reply",
        [
            says("# A title and no e", finish_reason="length"),
            says(None, refusal="I am sorry."),
            says("", finish_reason="content_filter"),
        ],
    )
    async def test_half_an_answer_and_a_refusal_are_no_page(self, reply: Reply) -> None:
        error, _ = await failure_of(reply)
        assert isinstance(error, UpstreamRefused)
        assert "title" not in error.message


class TestCancellation:
    async def test_a_cancelled_job_leaves_the_endpoint_at_once(self) -> None:
        async with scripted_llm(hangs) as (server, llm):
            reading = asyncio.create_task(llm.read_picture(JPEG))
            async with asyncio.timeout(10):
                while not server.requests:
                    await asyncio.sleep(0.01)
                reading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reading
                while not server.given_up:
                    await asyncio.sleep(0.01)

    async def test_no_more_are_asked_at_once_than_the_endpoint_may(self) -> None:
        async def slow(asked: Any) -> None:
            await asyncio.sleep(0.02)
            await says("Text")(asked)

        async with scripted_llm(slow, max_concurrent=2) as (server, llm):
            pages = await asyncio.gather(*(llm.read_picture(JPEG) for _ in range(8)))
        assert pages == ["Text"] * 8
        assert server.most_at_once == 2


class TestSecrets:
    async def test_an_endpoint_that_echoes_the_key_does_not_get_it_into_messages(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        error, _ = await failure_of(echoes_the_key)
        assert "Bad request from Bearer *** key *** no" in error.message
        assert KEY not in f"{error!r} {error.details} {error.__cause__!r} {caplog.text}"

    async def test_a_key_is_not_shown_with_the_options(self) -> None:
        async with llm_server(says("Text")) as server:
            options = server.options()
        assert KEY not in repr(options)
        assert pickle.loads(pickle.dumps(options)) == options


def test_the_library_is_not_loaded_before_it_is_needed() -> None:
    program = f"""
import sys; sys.path[:] = {sys.path!r}
import secretary.llm, secretary.worker.isolation, secretary.app, secretary.api
print(*sys.modules)"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "secretary.llm" in result.stdout.split()
    assert not {"jsonschema_rs", "openai", "httpx2"} & set(result.stdout.split())


def test_options_without_models_say_nothing() -> None:
    assert Llm().options == LlmOptions()
