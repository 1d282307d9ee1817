"""Who listens to a recording: the local engine or an endpoint, by settings and language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from ..engines.language_names import english_name
from ..engines.speech import Heard, Said, SpeechEngine, open_speech_engine
from ..errors import EngineUnavailable
from ..handler import JobContext
from ..processors.speech.pieces import Piece
from ..processors.speech.understanding import is_understood
from ..remote import Remote

LISTEN: Remote[Heard] = Remote("processors.speech.listening", "transcribe")
PACK: Remote[bytes] = Remote("processors.media.sound", "as_wav")

#: To pack half a minute of sound takes no longer.
PACK_TIMEOUT = timedelta(minutes=1)


class Ears(Protocol):
    """An engine for one recording. `options` are what makes a difference to what is heard,
    beside its version; `lanes` is how many pieces it listens to at the same time."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def lanes(self) -> int: ...
    @property
    def language(self) -> str | None: ...
    @property
    def takes_any_for_its_own(self) -> bool:
        """Whether it would put down any language as if it were the one it knows."""
        ...

    async def hear(self, sound: str, piece: Piece) -> Heard: ...

    def understood(self, heard: Sequence[Heard]) -> bool: ...

    def for_language(self, language: str) -> "Ears":
        """The same, once it is known what is spoken."""
        ...


@dataclass(frozen=True, slots=True)
class LocalEars:
    ctx: JobContext[Any]
    engine: SpeechEngine
    language: str | None

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def version(self) -> str:
        return f"{self.engine.name} {self.engine.version}"

    @property
    def options(self) -> Mapping[str, Any]:
        return {"language": self.language}

    @property
    def lanes(self) -> int:
        return self.ctx.processes

    @property
    def takes_any_for_its_own(self) -> bool:
        return self.language is None and len(self.engine.languages()) == 1

    async def hear(self, sound: str, piece: Piece) -> Heard:
        media = self.ctx.media
        return await self.ctx.run(
            LISTEN,
            Path(sound),
            piece,
            self.engine.name,
            media.speech_model_directory,
            self.language,
            wall_time=media.piece_timeout,
        )

    def understood(self, heard: Sequence[Heard]) -> bool:
        return is_understood(heard)

    def for_language(self, language: str) -> "LocalEars":
        return replace(self, language=language)


@dataclass(frozen=True, slots=True)
class RemoteEars:
    """Any endpoint that speaks OpenAI's protocol."""

    ctx: JobContext[Any]
    language: str | None

    name = "openai"
    takes_any_for_its_own = False

    @property
    def version(self) -> str:
        return f"openai {self.ctx.llm.model('transcription')}"

    @property
    def options(self) -> Mapping[str, Any]:
        return {"language": self.language, "model": self.ctx.llm.model("transcription")}

    @property
    def lanes(self) -> int:
        return self.ctx.llm.options.models["transcription"].provider.max_concurrent

    async def hear(self, sound: str, piece: Piece) -> Heard:
        packed = await self.ctx.run(PACK, sound, piece.start, piece.end, wall_time=PACK_TIMEOUT)
        heard = await self.ctx.llm.transcribe(
            packed,
            file_name=f"piece_{piece.number:04d}.wav",
            seconds=piece.end - piece.start,
            language=self.language,
        )
        said = tuple(
            Said(start + piece.start, end + piece.start, text) for start, end, text in heard.said
        )
        return replace(heard, said=said)

    def understood(self, heard: Sequence[Heard]) -> bool:
        return True

    def for_language(self, language: str) -> "RemoteEars":
        return replace(self, language=language)


def ears_for(ctx: JobContext[Any], language: str | None) -> list[Ears]:
    """Those to be tried, one after the other; at least one. EngineUnavailable, before any work,
    where nobody understands the language."""
    media = ctx.media
    found: list[Ears] = []
    if media.speech_engine != "openai":
        engine = open_speech_engine(model_directory=media.speech_model_directory)
        if language is None or language in engine.languages():
            found.append(LocalEars(ctx, engine, language))
    if media.speech_engine != "local" and "transcription" in ctx.llm.options.models:
        found.append(RemoteEars(ctx, language))
    if not found and media.speech_engine == "openai":
        ctx.llm.model("transcription")  # says what to set
    if not found:
        raise nobody_understands(language)
    return found


def nobody_understands(language: str | None) -> EngineUnavailable:
    if language is None:
        text = "What is spoken in the recording is none of the languages that can be understood"
    else:
        text = f"No engine is set that understands {english_name(language)}"
    return EngineUnavailable(
        f"{text}: set media.speech_model_directory to a model for more languages,"
        " or llm.transcription_model to one behind an endpoint",
        language=language,
    )
