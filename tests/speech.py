"""Real and synthetic speech, and the word error rate of its transcription."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from secretary.media.speech.chunking import Chunk, build_chunks, transcribe_chunk
from secretary.media.speech.engines import SAMPLE_RATE, TimedText, Transcription
from secretary.media.speech.vad import detect_speech

TWO_CITIES = """It was the best of times, it was the worst of times, it was the age of wisdom, it
was the age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the
season of light, it was the season of darkness, it was the spring of hope, it was the winter of
despair, we had everything before us, we had nothing before us, we were all going direct to heaven,
we were all going direct the other way. In short, the period was so far like the present period that
some of its noisiest authorities insisted on its being received, for good or for evil, in the
superlative degree of comparison only."""
BECKETT = "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."
MINUTES = """The committee met on Tuesday morning to discuss the new library. Several members asked
whether the building would be ready before winter. The architect explained that the roof had been
delayed by heavy rain, but the walls were nearly finished. After a short break, the treasurer
presented the budget for the coming year."""
FOREIGN = {
    "de": """Der Ausschuss traf sich am Dienstagmorgen, um über die neue Bibliothek zu sprechen.
Mehrere Mitglieder fragten, ob das Gebäude vor dem Winter fertig werde. Der Architekt erklärte, dass
sich das Dach wegen des starken Regens verspätet habe, die Wände aber fast fertig seien.""",
    "fr": """Le comité s'est réuni mardi matin pour parler de la nouvelle bibliothèque. Plusieurs
membres ont demandé si le bâtiment serait prêt avant l'hiver. L'architecte a expliqué que le toit
avait pris du retard à cause de la pluie, mais que les murs étaient presque terminés.""",
    "es": """El comité se reunió el martes por la mañana para hablar de la nueva biblioteca. Varios
miembros preguntaron si el edificio estaría listo antes del invierno. El arquitecto explicó que el
tejado se había retrasado por la lluvia, pero que las paredes estaban casi terminadas.""",
    "it": """Il comitato si è riunito martedì mattina per parlare della nuova biblioteca. Diversi
membri hanno chiesto se l'edificio sarebbe stato pronto prima dell'inverno. L'architetto ha spiegato
che il tetto era in ritardo a causa della pioggia, ma che i muri erano quasi finiti.""",
}


def needs(*programs: str) -> pytest.MarkDecorator:
    """Required in CI, except for pico, which is not available on every system."""
    missing = [name for name in programs if shutil.which(name) is None]
    needed = [name for name in missing if name != "pico2wave"]
    is_forgiven = bool(missing) and ("CI" not in os.environ or not needed)
    return pytest.mark.skipif(is_forgiven, reason=f"not installed: {', '.join(missing)}")


@functools.cache
def read_aloud(text: str, voice: str = "slt") -> np.ndarray:
    """Spoken by flite, without the silence before and after."""
    sound = _made("flite", "-voice", voice, "-t", text, "-o")
    loud = np.flatnonzero(np.abs(sound) > 0.02)
    return sound[loud[0] : loud[-1] + 1]


@functools.cache
def read_by_pico(text: str, language: str) -> np.ndarray:
    """`de-DE`, `en-GB` …"""
    return _made("pico2wave", "-l", language, "-w", last=text)


@functools.cache
def read_by_espeak(text: str, voice: str) -> np.ndarray:
    return _made("espeak-ng", "-v", voice, "-w", last=text)


def _made(*command: str, last: str | None = None) -> np.ndarray:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "made.wav"
        words = [*command, str(path), *([last] if last else [])]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        return sound_of(path)


@functools.cache
def real_voice(name: str) -> np.ndarray:
    """`two_cities` or `beckett`, from the wheel of moonshine-voice."""
    spec = importlib.util.find_spec("moonshine_voice")
    assert spec is not None and spec.origin is not None
    return sound_of(Path(spec.origin).parent / "assets" / f"{name}.wav")


def sound_of(path: Path) -> np.ndarray:
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        rate, block = file.getframerate(), file.readframes(file.getnframes())
    sound = np.frombuffer(block, "<i2").astype(np.float32) / 32768
    # Resample by truncating or padding the spectrum.
    wanted = round(len(sound) * SAMPLE_RATE / rate)
    spectrum = np.fft.rfft(sound)[: wanted // 2 + 1]
    return np.asarray(np.fft.irfft(spectrum, wanted) * (wanted / len(sound)), np.float32)


def silence(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


def noise(seconds: float, loudness: float = 1.0) -> np.ndarray:
    """Room noise: louder at low frequencies. Always the same."""
    count = round(seconds * SAMPLE_RATE)
    spectrum = np.fft.rfft(np.random.default_rng(1).standard_normal(count))
    sound = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), count)
    return np.asarray(sound / sound.std() * loudness, np.float32)


def tones(seconds: float, pitches: Sequence[float], length: float) -> np.ndarray:
    """A melody of plucked strings."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    since = time % length
    pitch = np.array(pitches)[(time // length).astype(int) % len(pitches)]
    strings = sum(np.sin(2 * np.pi * pitch * part * since) / part for part in (1, 2, 3, 4))
    return np.asarray(0.3 * strings * np.exp(-3 * since), np.float32)


def over_the_telephone(sound: np.ndarray) -> np.ndarray:
    spectrum, pitch = np.fft.rfft(sound), np.fft.rfftfreq(len(sound), 1 / SAMPLE_RATE)
    # With slopes: a sharp edge would ring before a word begins.
    spectrum *= np.interp(pitch, (200, 350, 3300, 3700), (0, 1, 1, 0))
    return np.fft.irfft(spectrum, len(sound)).astype(np.float32)


def written(sound: np.ndarray, path: Path) -> Path:
    """PCM, as recordings are decoded to."""
    (np.clip(sound, -1, 1) * 32767).round().astype("<i2").tofile(path)
    return path


def transcribe_audio(
    sound: np.ndarray, directory: Path, *, pieces: Sequence[Chunk] | None = None
) -> list[Transcription]:
    path = written(sound, directory / "sound.raw")
    return [
        transcribe_chunk(path, piece, None, None)
        for piece in (build_chunks(*detect_speech(path)) if pieces is None else pieces)
    ]


def lines_of(transcriptions: Sequence[Transcription]) -> list[TimedText]:
    return [segment for one in transcriptions for segment in one.segments]


def text_of(transcriptions: Sequence[Transcription]) -> str:
    return " ".join(segment.text for segment in lines_of(transcriptions))


def word_error_rate(reference: str, hypothesis: str) -> float:
    """Substitutions, deletions and insertions per spoken word; punctuation and case are ignored."""
    expected, recognised = words_of(reference), words_of(hypothesis)
    row = list(range(len(recognised) + 1))
    for above, word in enumerate(expected, 1):
        diagonal, row[0] = row[0], above
        for column, other in enumerate(recognised, 1):
            change = diagonal + (word != other)
            diagonal, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, change)
    return row[-1] / len(expected)


def words_of(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())
