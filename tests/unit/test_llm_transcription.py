"""Transcription over a real connection to a scripted endpoint."""

import asyncio
import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from secretary.core.errors import EngineUnavailable, JobFailed, UpstreamFailed, UpstreamRefused
from secretary.core.job import ResourceCalculator
from secretary.llm import Endpoints, Llm, Price
from secretary.media.speech.engines import Transcription

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
    heard,
    llm_server,
)

WAV = b"RIFF\x00\xff\r\n--a sound--\r\n"
AT_ONCE = {"Retry_After_Ms": "1"}
NO_VERBOSE = fails(
    "400 Bad Request",
    "response_format 'verbose_json' is not compatible with model 'gpt-4o-transcribe'."
    " Use 'json' or 'text' instead.",
)
BARE = gives(b'{"text": " Hello there. "}')


async def listen(llm: Llm, **options: Any) -> Transcription:
    return await llm.transcribe(WAV, **{"file_name": "piece.wav", "seconds": 10, **options})


async def failure_of(*replies: Reply, **options: Any) -> tuple[JobFailed, LlmServer]:
    async with scripted_llm(*replies, **options) as (server, llm):
        with pytest.raises(JobFailed) as caught:
            await listen(llm)
        return caught.value, server


class TestASound:
    async def test_each_segment_has_its_timestamps(self) -> None:
        async with scripted_llm(heard((0.5, 2, " Hello there."), (2, 4, " Bye."))) as (_, llm):
            transcription = await listen(llm)
        assert transcription.segments == ((0.5, 2, "Hello there."), (2, 4, "Bye."))
        assert transcription.language == "en"
        assert transcription.confidence == pytest.approx(0.7788, abs=1e-4)

    async def test_the_request_contains_audio_model_key_and_parameters(self) -> None:
        async with scripted_llm(heard((0, 1, "a")), parameters={"temperature": 0}) as (server, llm):
            await listen(llm, language="German", prompt="Grüezi")
        (request,) = server.requests
        headers = request.pop("headers")
        assert headers["authorization"] == f"Bearer {KEY}"
        assert request == {
            "file": ("piece.wav", WAV),
            "model": "scripted",
            "language": "de",
            "prompt": "Grüezi",
            "response_format": "verbose_json",
            "timestamp_granularities[]": "segment",
            "temperature": "0",
        }

    async def test_language_and_prompt_are_not_sent_unless_given(self) -> None:
        async with scripted_llm(heard((0, 1, "a"))) as (server, llm):
            await listen(llm)
        assert not {"language", "prompt"} & set(server.requests[0])

    @pytest.mark.parametrize("language", ["german", "de", "German", "deu"])
    async def test_the_language_is_returned_as_a_language_code(self, language: str) -> None:
        async with scripted_llm(heard((0, 1, "Hallo"), language=language)) as (_, llm):
            assert (await listen(llm)).language == "de"

    async def test_a_language_that_was_asked_for_stays(self) -> None:
        async with scripted_llm(heard((0, 1, "Hallo"), language="en")) as (_, llm):
            assert (await listen(llm, language="ger")).language == "de"

    async def test_an_unreported_language_is_the_requested_one_or_none(self) -> None:
        async with scripted_llm(BARE) as (_, llm):
            assert (await listen(llm, language="de-CH")).language == "de"
            assert (await listen(llm)).language == "und"

    @pytest.mark.parametrize("reply", [heard(), heard((0, 10, " ")), gives(b'{"text": ""}')])
    async def test_silence_is_nothing_and_no_failure(self, reply: Reply) -> None:
        async with scripted_llm(reply) as (_, llm):
            transcription = await listen(llm)
        assert (transcription.segments, transcription.confidence) == ((), 0)

    async def test_times_outside_the_sound_are_not_believed(self) -> None:
        async with scripted_llm(heard((0, 5, "One."), (4000, 9000, "Two."))) as (_, llm):
            assert (await listen(llm)).segments == ((0, 10, "One. Two."),)

    async def test_segments_without_the_whole_text_are_enough(self) -> None:
        async with scripted_llm(heard((0, 1, "One."), (2, 3, "Two."), text=None)) as (_, llm):
            assert (await listen(llm)).segments == ((0, 1, "One."), (2, 3, "Two."))


class TestAnEndpointWithoutTimes:
    async def test_is_asked_for_the_bare_text(self) -> None:
        async with scripted_llm(NO_VERBOSE, BARE) as (server, llm):
            transcription = await listen(llm, language="en")
        assert transcription == Transcription(
            language="en",
            segments=((0, 10, "Hello there."),),  # type: ignore[arg-type]
            confidence=0,
        )
        formats = [request["response_format"] for request in server.requests]
        assert formats == ["verbose_json", "json"]
        assert "timestamp_granularities[]" not in server.requests[1]
        assert server.requests[1]["file"] == ("piece.wav", WAV)

    async def test_is_known_the_next_time_by_all_jobs(self) -> None:
        async with llm_server(NO_VERBOSE, BARE) as server:
            endpoints = Endpoints(server.options())
            await listen(Llm(endpoints))
            await listen(Llm(endpoints))
            await endpoints.close()
        formats = [request["response_format"] for request in server.requests]
        assert formats == ["verbose_json", "json", "json"]

    async def test_is_not_presumed_when_both_are_refused(self) -> None:
        bad = fails("400 Bad Request", "This is no sound")
        async with scripted_llm(bad, bad, heard((0, 1, "a"))) as (server, llm):
            with pytest.raises(UpstreamRefused, match="This is no sound"):
                await listen(llm)
            assert (await listen(llm)).segments == ((0, 1, "a"),)
        assert server.requests[-1]["response_format"] == "verbose_json"

    async def test_may_also_leave_the_segments_out(self) -> None:
        async with scripted_llm(heard(text="Hello there.")) as (server, llm):
            assert (await listen(llm)).segments == ((0, 10, "Hello there."),)
        assert len(server.requests) == 1


class TestAccounting:
    async def test_seconds_are_counted_as_the_endpoint_reports_them(self) -> None:
        resources = ResourceCalculator()
        reply = heard((0, 1, "a"), usage={"type": "duration", "seconds": 11})
        async with llm_server(reply) as server:
            endpoints = Endpoints(server.options(price=Price(minute=0.006)))
            llm = Llm(endpoints, resources)
            await listen(llm)
            await endpoints.close()
        info = llm.info()
        assert info["requests"][0].pop("duration_ms") >= 0
        assert info["requests"] == [
            {
                "model": "scripted", "purpose": "transcription", "input_tokens": 0,
                "output_tokens": 0, "tokens": 0, "sound_seconds": 11, "cost": 0.0011,
            }
        ]  # fmt: skip
        assert info["total_cost"] == 0.0011
        assert resources.used == {
            "llm_requests": 1, "llm_input_tokens": 0, "llm_output_tokens": 0,
            "llm_sound_seconds": 11, "llm_cost": 0.0011,
        }  # fmt: skip

    async def test_where_it_does_not_the_length_of_the_sound_counts(self) -> None:
        async with scripted_llm(BARE) as (_, llm):
            await listen(llm)
            assert llm.info()["requests"][0]["sound_seconds"] == 10
            assert "total_cost" not in llm.info()

    async def test_tokens_are_counted_too(self) -> None:
        used = {"type": "tokens", "input_tokens": 70, "output_tokens": 5, "total_tokens": 75}
        body = json.dumps({"text": "Hello", "usage": used}).encode()
        async with scripted_llm(gives(body), price=Price(input=10, output=100)) as (_, llm):
            await listen(llm)
            assert (llm.info()["total_tokens"], llm.info()["total_cost"]) == (75, 0.0012)


class TestTriesAgain:
    @pytest.mark.parametrize(
        "reply",
        [
            fails("429 Too Many Requests", Retry_After="0"),
            fails("500 Internal Server Error", **AT_ONCE),
            hangs_up,
        ],
    )
    async def test_with_the_whole_sound(self, reply: Reply) -> None:
        async with scripted_llm(reply, heard((0, 1, "a"))) as (server, llm):
            assert (await listen(llm)).segments == ((0, 1, "a"),)
        assert [request["file"] for request in server.requests] == [("piece.wav", WAV)] * 2

    async def test_a_long_wait_is_left_to_the_job(self) -> None:
        error, server = await failure_of(fails("429 Too Many", Retry_After="600"))
        assert isinstance(error, UpstreamFailed) and error.retryable
        assert error.retry_after == timedelta(minutes=10)
        assert len(server.requests) == 1


class TestFailures:
    async def test_without_a_model_it_says_what_to_set(self) -> None:
        with pytest.raises(EngineUnavailable, match=r"set llm\.transcription_model, and"):
            await listen(Llm())

    async def test_a_refused_key_is_a_matter_of_the_settings(self) -> None:
        error, server = await failure_of(fails("401 Unauthorized", f"Incorrect API key: {KEY}"))
        assert isinstance(error, EngineUnavailable)
        assert "llm.api_key" in error.message and KEY not in error.message
        assert len(server.requests) == 1

    async def test_audio_that_is_too_large_is_not_sent_again(self) -> None:
        error, server = await failure_of(fails("413 Too Large", "Maximum content size exceeded"))
        assert isinstance(error, UpstreamRefused)
        assert "(413): Maximum content size exceeded" in error.message
        assert len(server.requests) == 1

    async def test_a_server_that_hangs_is_given_up(self) -> None:
        error, _ = await failure_of(hangs, timeout_sec=0.3)
        assert isinstance(error, UpstreamFailed) and error.retryable
        assert "did not answer in 0.3 s" in error.message

    @pytest.mark.parametrize(
        "body",
        [
            b"Hello there.",
            b"{}",
            b"[]",
            b'{"text": 7}',
            b'{"text": "a", "segments": [{"start": "x", "end": 1, "text": "a"}]}',
            b'{"text": "a", "segments": [{"start": NaN, "end": 1, "text": "a"}]}',
            b"<html>Welcome</html>",
        ],
    )
    async def test_what_is_no_answer_is_nothing_said(self, body: bytes) -> None:
        error, _ = await failure_of(gives(body))
        assert isinstance(error, UpstreamFailed) and error.retryable
        assert "cannot be read" in error.message

    async def test_an_error_in_a_good_answer_is_an_error(self) -> None:
        error, _ = await failure_of(gives(b'{"error": {"message": "No capacity"}}'))
        assert error.message == "The language model gave no answer: No capacity"

    async def test_a_key_never_gets_into_messages_or_logs(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        error, _ = await failure_of(echoes_the_key)
        assert KEY not in f"{error!r} {error.details} {error.__cause__!r} {caplog.text}"


async def test_a_cancelled_job_leaves_the_endpoint_at_once() -> None:
    async with scripted_llm(hangs) as (server, llm):
        listening = asyncio.create_task(listen(llm))
        async with asyncio.timeout(10):
            while not server.requests:
                await asyncio.sleep(0.01)
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listening
            while not server.given_up:
                await asyncio.sleep(0.01)
