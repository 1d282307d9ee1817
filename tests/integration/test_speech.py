"""Speech from PCM to words with timestamps: all steps, with the real engine."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from secretary.media.speech.chunking import Chunk, Span, build_chunks
from secretary.media.speech.engines import SAMPLE_RATE, is_intelligible
from secretary.media.speech.vad import detect_speech

from ..speech import (
    BECKETT,
    FOREIGN,
    MINUTES,
    TWO_CITIES,
    lines_of,
    needs,
    noise,
    over_the_telephone,
    read_aloud,
    read_by_espeak,
    read_by_pico,
    real_voice,
    silence,
    text_of,
    tones,
    transcribe_audio,
    word_error_rate,
    words_of,
    written,
)


def test_real_voices_are_understood(tmp_path: Path) -> None:
    for name, text, limit in [("two_cities", TWO_CITIES, 0.02), ("beckett", BECKETT, 0.0)]:
        transcriptions = transcribe_audio(real_voice(name), tmp_path)
        assert word_error_rate(text, text_of(transcriptions)) <= limit
        assert is_intelligible(transcriptions)


@needs("flite", "pico2wave")
def test_made_voices_are_understood(tmp_path: Path) -> None:
    """Word error rates; the limits are about twice what was measured."""
    for name, sound, limit in [
        ("slt", read_aloud(MINUTES), 0.02),
        ("rms", read_aloud(MINUTES, "rms"), 0.05),
        ("GB", read_by_pico(MINUTES, "en-GB"), 0.02),
        ("slt over the telephone", over_the_telephone(read_aloud(MINUTES)), 0.08),
        ("rms, quiet", read_aloud(MINUTES, "rms") * 0.02, 0.06),
        ("rms, noise", read_aloud(MINUTES, "rms") + _noise_under(MINUTES), 0.15),
    ]:
        transcriptions = transcribe_audio(sound, tmp_path)
        assert word_error_rate(MINUTES, text_of(transcriptions)) <= limit, name
        assert is_intelligible(transcriptions), name


def _noise_under(text: str) -> np.ndarray:
    sound = read_aloud(text, "rms")
    return noise(len(sound) / SAMPLE_RATE, float(sound.std()) * 0.3)


@needs("flite")
def test_times_are_those_of_the_recording(tmp_path: Path) -> None:
    """Pauses of all lengths, one of which is skipped."""
    texts = [
        ("slt", "The train leaves at nine.", 0.8),
        ("rms", "Please bring your own lunch.", 3.0),
        ("awb", "We will be back before dark.", 9.0),
        ("slt", "Nobody knows the answer yet.", 70.0),
        ("rms", "The river is frozen in winter.", 1.0),
        ("slt", "It is warm here, so open the window.", 2.0),
    ]
    parts, starts, at = [silence(12)], [], 12.0
    for voice, text, pause in texts:
        words = read_aloud(text, voice)
        starts.append((at, at + len(words) / SAMPLE_RATE))
        parts += [words, silence(pause)]
        at += len(words) / SAMPLE_RATE + pause
    segments = lines_of(transcribe_audio(np.concatenate(parts), tmp_path))
    assert len(segments) == len(texts)
    for line, (start, end) in zip(segments, starts, strict=True):
        assert line.start == pytest.approx(start, abs=0.3)
        assert line.end == pytest.approx(end, abs=0.3)


@needs("flite")
def test_no_word_is_lost_or_doubled_where_speech_is_cut(tmp_path: Path) -> None:
    sound = read_aloud(MINUTES)
    duration, spans = detect_speech(written(sound, tmp_path / "sound.raw"))
    parts = _parts(spans, 3.0)
    cuts = [(before[-1].end + after[0].start) / 2 for before, after in pairwise(parts)]
    pieces = []
    for number, (speech, start, end) in enumerate(
        zip(parts, [0.0, *cuts], [*cuts, duration], strict=True)
    ):
        [piece] = build_chunks(end, speech)
        [window] = piece.windows
        pieces.append(Chunk(number, (window._replace(start=max(start, window.start)),)))
    assert len(pieces) >= 4
    transcriptions = transcribe_audio(sound, tmp_path, pieces=pieces)
    assert word_error_rate(MINUTES, text_of(transcriptions)) <= 0.05
    assert len(words_of(text_of(transcriptions))) == len(words_of(MINUTES))


@needs("flite")
def test_speech_without_a_pause_is_cut_between_words(tmp_path: Path) -> None:
    text = " ".join(MINUTES.replace(".", "").replace(",", "").split())
    sound = np.concatenate([read_aloud(text), read_aloud(text, "rms")])
    transcriptions = transcribe_audio(sound, tmp_path)
    chunks = build_chunks(*detect_speech(tmp_path / "sound.raw"))
    assert len(chunks[0].windows) == 2
    assert word_error_rate(f"{text} {text}", text_of(transcriptions)) <= 0.08


def _parts(spans: list[Span], seconds: float) -> list[tuple[Span, ...]]:
    parts: list[tuple[Span, ...]] = []
    for span in spans:
        if parts and parts[-1][-1].end - parts[-1][0].start < seconds:
            parts[-1] = (*parts[-1], span)
        else:
            parts.append((span,))
    return parts


def test_the_same_audio_gives_the_same_words(tmp_path: Path) -> None:
    sound = real_voice("beckett") + noise(len(real_voice("beckett")) / SAMPLE_RATE, 0.01)
    assert transcribe_audio(sound, tmp_path) == transcribe_audio(sound, tmp_path)


@needs("pico2wave", "espeak-ng")
@pytest.mark.parametrize("language", ["de", "fr", "es", "it"])
def test_another_language_is_not_taken_for_english(language: str, tmp_path: Path) -> None:
    text = FOREIGN[language]
    for sound in (
        read_by_pico(text, f"{language}-{language.upper()}"),
        read_by_espeak(text, language),
    ):
        transcriptions = transcribe_audio(sound, tmp_path)
        assert not text_of(transcriptions) or not is_intelligible(transcriptions)


@needs("flite")
def test_some_music_does_not_make_english_foreign(tmp_path: Path) -> None:

    sound = np.concatenate([tones(20, (220, 277, 330, 440), 0.5), silence(1), read_aloud(MINUTES)])
    transcriptions = transcribe_audio(sound, tmp_path)
    assert word_error_rate(MINUTES, text_of(transcriptions)) <= 0.05
    assert is_intelligible(transcriptions)


def test_silence_says_nothing_and_takes_no_engine(tmp_path: Path) -> None:
    assert transcribe_audio(silence(600), tmp_path) == []
