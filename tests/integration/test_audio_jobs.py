"""Recordings through the whole service: the API, the worker and the real engine."""

import asyncio
import io
import json
import wave
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from secretary.media.subtitles import parse_subtitles

from ..audio_files import (
    WORDS,
    german_speech,
    made,
    sound,
    speech,
)
from ..llm_server import KEY, Reads, Reply, heard, llm_server, says
from ..service_fixture import ServiceClient, running_service
from ..speech import word_error_rate

ROUTE = "/api/audio/process"


def in_capitals(request: Mapping[str, Any]) -> Reply:
    """A model that translates into uppercase."""
    texts = json.loads(request["messages"][-1]["content"])
    return says(json.dumps({key: text.upper() for key, text in texts.items()}))


def silence(seconds: float, rate: int = 16_000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(bytes(round(seconds * rate) * 2))
    return file.getvalue()


async def test_a_recording_becomes_a_transcript_subtitles_and_markdown(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        results = await service.read(ROUTE, speech().read_bytes(), "Board meeting.wav")
        transcription = results["transcription"]
        assert word_error_rate(WORDS, transcription["text"]) <= 0.05
        assert transcription["source_language"] == "en"
        segments = transcription["segments"]
        assert " ".join(one["text"] for one in segments) == " ".join(transcription["text"].split())
        assert all(one["start"] < one["end"] for one in segments)
        for kind in ("srt", "vtt"):
            cues = parse_subtitles((await service.get(results["subtitles"][kind])).text)
            assert " ".join(cue.text for cue in cues) == " ".join(one["text"] for one in segments)
        assert results["markdown_content"].startswith("# Board meeting\n\n**[00:00]** It was")
        assert (await service.get(results["markdown_file"])).text == results["markdown_content"]
        assert sorted(await service.archived(results["archive_url"])) == [
            "transcript.md",
            "transcript.srt",
            "transcript.txt",
            "transcript.vtt",
        ]
        assert results["metadata"]["format"] == "wav"
        assert "chapters" not in results["metadata"]
        assert results["chapters"] == []
        assert results["metadata"]["duration"] == pytest.approx(7, abs=1)
    assert await service.leftovers() == []


async def test_the_same_audio_in_any_format_gives_the_same_words(tmp_path: Path) -> None:
    forms = ["a.mp3", "a.m4a", "a.ogg", "a.flac", "a.opus"]
    async with running_service(tmp_path) as service:
        read = [service.read(ROUTE, sound(name).read_bytes(), name) for name in forms]
        for name, results in zip(forms, await asyncio.gather(*read), strict=True):
            rate = word_error_rate(WORDS, results["transcription"]["text"])
            assert rate <= 0.05, name


async def test_times_are_those_of_the_recording(tmp_path: Path) -> None:
    """Two sentences with silence before and between them."""
    first, second = speech("The committee will meet on Tuesday."), speech("Please bring a coat.")
    arguments = ("-i", first, "-i", second, "-filter_complex")
    delays = "[0]adelay=3000[a];[1]adelay=20000[b];[a][b]amix=inputs=2:normalize=0"
    path = made(tmp_path / "placed.wav", *arguments, delays)
    async with running_service(tmp_path / "data") as service:
        results = await service.read(ROUTE, path.read_bytes(), "a.wav")
    one, other = results["transcription"]["segments"]
    assert one["start"] == pytest.approx(3, abs=0.5)
    assert other["start"] == pytest.approx(20, abs=0.5)


async def test_the_same_audio_again_is_served_from_the_cache(tmp_path: Path) -> None:
    content = speech().read_bytes()
    async with running_service(tmp_path, quotas={"audio_minutes_per_day": 9}) as service:
        first = await service.read(ROUTE, content, "one.wav", user="anna")
        again = await service.read(ROUTE, content, "other.wav", user="bert")
        anew = await service.read(ROUTE, content, "one.wav", force_refresh=True)
        used = [
            (await service.get(f"/api/quota?user_id={user}")).json()["data"]["audio_minutes"]
            for user in ("anna", "bert")
        ]
    assert used == [{"used": pytest.approx(0.1, abs=0.03), "limit": 9}, {"used": 0, "limit": 9}]
    assert not first["is_from_cache"]
    assert again["is_from_cache"]
    assert not anew["is_from_cache"]
    assert again["transcription"] == first["transcription"] == anew["transcription"]
    assert again["metadata"]["file_name"] == "other.wav"
    assert "one.wav" not in json.dumps(again)


class TestLanguages:
    async def test_german_is_refused_by_an_engine_that_knows_english_only(
        self, tmp_path: Path
    ) -> None:
        async with running_service(tmp_path) as service:
            error = await service.refused(
                ROUTE, speech().read_bytes(), "a.wav", source_language="de"
            )
            heard_so = await service.refused(ROUTE, german_speech().read_bytes(), "b.wav")
        assert error["code"] == heard_so["code"] == "ENGINE_UNAVAILABLE"
        assert "German" in error["message"]
        assert "speech_model_directory" in heard_so["message"]

    async def test_an_endpoint_is_asked_where_the_local_engine_does_not_understand(
        self, tmp_path: Path
    ) -> None:
        answer = heard((0.1, 2.0, "Guten Tag."), (2.0, 4.5, "Das Wetter ist schön."), language="de")
        async with llm_server(answer) as server:
            url = server.web.url("/v1")
            settings = {"base_url": url, "api_key": KEY, "transcription_model": "whisper-1"}
            async with running_service(tmp_path, llm=settings) as service:
                results = await service.read(
                    ROUTE, german_speech().read_bytes(), "a.wav", source_language="de-DE"
                )
        assert results["transcription"]["text"] == "Guten Tag. Das Wetter ist schön."
        assert results["transcription"]["source_language"] == "de"
        assert results["llm_info"]["requests"]

    async def test_a_language_that_nobody_knows_is_refused(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            error = await service.refused(
                ROUTE, speech().read_bytes(), "a.wav", source_language="klingon"
            )
        assert error["code"] == "VALIDATION_ERROR"


class TestTranslation:
    async def test_the_same_language_asks_no_model(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            results = await service.read(
                ROUTE,
                speech().read_bytes(),
                "a.wav",
                source_language="en",
                target_language="en-GB",
            )
        assert results["llm_info"]["requests"] == []
        assert "target_language" not in results["transcription"]

    async def test_the_sentences_keep_their_times_in_the_other_language(
        self, tmp_path: Path
    ) -> None:
        async with llm_server(Reads(in_capitals)) as server:
            llm = {"base_url": server.web.url("/v1"), "api_key": KEY, "model": "scripted"}
            async with running_service(tmp_path, llm=llm) as service:
                content = speech().read_bytes()
                spoken = await service.read(ROUTE, content, "a.wav")
                results = await service.read(ROUTE, content, "a.wav", target_language="de")
                count = len(server.requests)
                again = await service.read(ROUTE, content, "a.wav", target_language="deu")
                original = (await service.get(results["original_subtitles"]["vtt"])).text
        translated, source = results["transcription"], spoken["transcription"]
        assert (translated["source_language"], translated["target_language"]) == ("en", "de")
        assert translated["segments"] == [
            {**one, "text": one["text"].upper()} for one in source["segments"]
        ]
        assert "IT WAS THE BEST" in results["markdown_content"]
        assert "It was the best" in original
        assert again["transcription"] == translated
        assert len(server.requests) == count, "earlier translations are not requested again"

    async def test_it_is_decided_after_the_language_is_known(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            results = await service.read(
                ROUTE,
                speech().read_bytes(),
                "a.wav",
                source_language="auto",
                target_language="en",
                strict="true",
            )
        assert "It was the best" in results["transcription"]["text"]
        assert results["transcription"]["source_language"] == "en"
        assert results["warnings"] == []

    async def test_without_a_model_the_transcript_stays_as_it_is_with_a_warning(
        self, tmp_path: Path
    ) -> None:
        async with running_service(tmp_path) as service:
            results = await service.read(
                ROUTE, speech().read_bytes(), "a.wav", source_language="auto", target_language="de"
            )
        assert "It was the best" in results["transcription"]["text"]
        (warning,) = results["warnings"]
        assert warning == {
            "code": "TRANSLATION_UNAVAILABLE",
            "message": "The text is in English and was not translated into German:"
            " no language model is configured (llm.chat_model)",
        }

    @pytest.mark.parametrize("source", ["auto", "en"])
    async def test_a_strict_request_fails_instead(self, tmp_path: Path, source: str) -> None:
        async with running_service(tmp_path) as service:
            error = await service.refused(
                ROUTE,
                speech().read_bytes(),
                "a.wav",
                source_language=source,
                target_language="de",
                strict="true",
            )
        assert error["code"] == "ENGINE_UNAVAILABLE"
        assert "llm" in error["message"]

    async def test_a_client_that_waits_gets_the_translation_as_the_text(
        self, tmp_path: Path
    ) -> None:
        """The first text that it finds among these fields."""
        fields = ("output_text", "translated_text", "original_text")
        async with llm_server(Reads(in_capitals)) as server:
            llm = {"base_url": server.web.url("/v1"), "api_key": KEY, "model": "scripted"}
            async with running_service(tmp_path, llm=llm) as service:
                response = await service.client.post(
                    ROUTE,
                    files={"file": ("dictation.webm", speech().read_bytes())},
                    data={"source_language": "en", "target_language": "de", "useCache": "false"},
                )
        data = response.json()["data"]
        text = next(
            (data[name] for name in fields if data.get(name)), data["transcription"]["text"]
        )
        assert "IT WAS THE BEST" in text

    async def test_of_a_template_it_gets_what_the_template_made(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            response = await service.client.post(
                ROUTE,
                files={"file": ("a.wav", speech().read_bytes())},
                data={"template_content": "# Note {{name}}", "context": '{"name": "One"}'},
            )
        data = response.json()["data"]
        assert "# Note One" in data["output_text"]
        assert "It was the best" in data["transcription"]["text"]


class TestSubtitlesThatExist:
    VTT = "WEBVTT\n\n00:00.000 --> 00:02.000\nWritten by hand\n"

    async def read(self, tmp_path: Path, **parameters: Any) -> dict[str, Any]:
        roots = {"source_roots": [str(tmp_path)]}
        async with running_service(tmp_path / "data", storage=roots) as service:
            return await self.results(service, **parameters)

    async def results(self, service: ServiceClient, **parameters: Any) -> dict[str, Any]:
        job = await service.ended(await service.submit("audio", file_path="talk.wav", **parameters))
        assert job["status"] == "completed", job["error"]
        results: dict[str, Any] = job["results"]
        return results

    async def test_those_beside_the_file_are_used(self, tmp_path: Path) -> None:
        (tmp_path / "talk.wav").write_bytes(speech().read_bytes())
        (tmp_path / "talk.en.vtt").write_text(self.VTT)
        results = await self.read(tmp_path)
        assert results["transcription"]["text"] == "Written by hand"
        assert results["metadata"]["engine"] == "subtitles"

    async def test_those_in_another_language_are_not(self, tmp_path: Path) -> None:
        (tmp_path / "talk.wav").write_bytes(speech().read_bytes())
        (tmp_path / "talk.fr.vtt").write_text(self.VTT)
        results = await self.read(tmp_path, source_language="en")
        assert word_error_rate(WORDS, results["transcription"]["text"]) <= 0.05

    async def test_who_does_not_want_them_has_the_engine_listen(self, tmp_path: Path) -> None:
        (tmp_path / "talk.wav").write_bytes(speech().read_bytes())
        (tmp_path / "talk.vtt").write_text(self.VTT)
        results = await self.read(tmp_path, use_subtitles=False)
        assert word_error_rate(WORDS, results["transcription"]["text"]) <= 0.05

    async def test_broken_ones_are_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "talk.wav").write_bytes(speech().read_bytes())
        (tmp_path / "talk.srt").write_text("nothing in it")
        results = await self.read(tmp_path)
        assert results["metadata"]["engine"] != "subtitles"


class TestBadInput:
    async def test_silence_is_no_transcript(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            error = await service.refused(ROUTE, silence(5), "a.wav")
        assert (error["code"], error["message"]) == (
            "UNSUPPORTED_FILE",
            "There is no speech in the recording",
        )

    async def test_a_truncated_file_is_refused_or_reported(self, tmp_path: Path) -> None:
        content = sound("a.m4a").read_bytes()
        async with running_service(tmp_path) as service:
            error = await service.refused(ROUTE, content[: len(content) // 2], "a.m4a")
        assert error["code"] == "FILE_CORRUPT"

    async def test_longer_than_allowed_is_refused(self, tmp_path: Path) -> None:
        async with running_service(tmp_path, media={"max_duration_hours": 0.001}) as service:
            error = await service.refused(ROUTE, speech().read_bytes(), "a.wav")
        assert error["code"] == "FILE_TOO_LARGE"
        assert await service.leftovers(uploads=False) == []
