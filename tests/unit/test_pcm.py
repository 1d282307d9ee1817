"""Recordings of all kinds decoded to the same samples by the real ffmpeg."""

import os
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from secretary.core.errors import (
    EngineUnavailable,
    FileCorrupt,
    FileEncrypted,
    FileTooLarge,
    ProcessingTimeout,
    UnsupportedFile,
)
from secretary.media.pcm import (
    DecodedAudio,
    decode_audio,
    decoded_seconds,
    read_samples,
    select_audio_track,
)
from secretary.media.probe import AudioTrack, Recording, probe
from secretary.media.speech.engines import SAMPLE_RATE

from ..audio_files import (
    RATE,
    SOUNDS,
    VIDEOS,
    length_of,
    long_silence,
    long_sound,
    made,
    minute,
    moving,
    sound,
    speech,
    video,
)

SECONDS = 60.0
ENOUGH = 100_000.0


def decode_samples(
    path: Path, into: Path, *, language: str | None = None, max_seconds: float = ENOUGH
) -> tuple[DecodedAudio, np.ndarray]:
    recording = probe(str(path))
    track = select_audio_track(recording.audio_tracks, language)
    assert track is not None
    decoded = decode_audio(
        str(path), str(into), recording=recording, track=track, max_seconds=max_seconds,
        timeout_s=SECONDS,
    )  # fmt: skip
    assert os.listdir(into.parent).count(f"{into.name}.part") == 0
    samples = read_samples(str(into), 0, decoded.seconds + 1)
    assert len(samples) == round(decoded.seconds * SAMPLE_RATE)
    return decoded, samples


def words() -> np.ndarray:
    content = speech().read_bytes()
    return np.frombuffer(content[44:], dtype="<i2").astype(np.float32) / 32768


def position_of(part: np.ndarray, whole: np.ndarray) -> tuple[float, float]:
    """Its position in seconds, and the correlation there."""
    size = len(part) + len(whole)
    correlation = np.fft.irfft(np.fft.rfft(whole, size) * np.conj(np.fft.rfft(part, size)), size)
    at = int(np.argmax(correlation[: len(whole)]))
    segment = whole[at : at + len(part)]
    return at / RATE, float(np.corrcoef(segment, part[: len(segment)])[0, 1])


def wav(
    channels: int, *, rate: int = RATE, seconds: float = 0.5, claimed: int | None = None
) -> bytes:
    content = b"\x10\x20" * channels * round(rate * seconds)
    size = len(content) if claimed is None else claimed
    kind = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    return b"".join((
        b"RIFF", struct.pack("<I", min(size + 36, 0xFFFFFFFF)), b"WAVE",
        b"fmt ", struct.pack("<I", 16), kind,
        b"data", struct.pack("<I", size), content,
    ))  # fmt: skip


class TestKinds:
    @pytest.mark.parametrize("name", [*SOUNDS, *VIDEOS])
    def test_all_kinds_sound_the_same(self, tmp_path: Path, name: str) -> None:
        path = sound(name) if name in SOUNDS else video(name)
        decoded, samples = decode_samples(path, tmp_path / "raw")
        assert decoded.warnings() == ()
        assert abs(decoded.seconds - length_of(speech())) < 0.05
        at, similarity = position_of(words()[: -RATE // 4], samples)
        assert at < 0.05
        assert similarity > 0.95

    def test_phone_recordings_are_decoded(self, tmp_path: Path) -> None:
        path = tmp_path / "a.amr"
        path.write_bytes(b"#!AMR\n" + (b"\x3c" + bytes(31)) * 100)
        decoded, _ = decode_samples(path, tmp_path / "raw")
        assert decoded.seconds == pytest.approx(2.0, abs=0.01)

    @pytest.mark.parametrize("name", VIDEOS)
    def test_a_video_has_moving_pictures(self, name: str) -> None:
        (picture,) = probe(str(video(name))).video_tracks
        assert (picture.width, picture.height) == (320, 240)

    @pytest.mark.parametrize("name", SOUNDS)
    def test_audio_has_no_video_tracks(self, name: str) -> None:
        recording = probe(str(sound(name)))
        assert recording.video_tracks == ()
        assert recording.duration == pytest.approx(length_of(speech()), abs=0.3)

    @pytest.mark.parametrize("name", ["cover.mp3", "cover.m4a", "cover.flac"])
    def test_a_cover_is_no_moving_picture(self, tmp_path: Path, name: str) -> None:
        path = made(
            tmp_path / name, "-i", speech(), *moving(0.1), "-map", "0:a", "-map", "1:v",
            "-frames:v", "1", "-c:v", "mjpeg", "-disposition:v", "attached_pic",
        )  # fmt: skip
        recording = probe(str(path))
        assert recording.video_tracks == ()
        assert len(recording.audio_tracks) == 1

    def test_tags_and_chapters_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "meta").write_text(
            ";FFMETADATA1\ntitle=Ein Titel\\; schön\nartist=X\n"
            "[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=2500\ntitle=Anfang\n"
            "[CHAPTER]\nTIMEBASE=1/1000\nSTART=2500\nEND=6000\ntitle=Ende\n"
        )
        path = made(
            tmp_path / "a.mka", "-i", speech(), "-i", tmp_path / "meta", "-map_metadata", "1"
        )
        recording = probe(str(path))
        assert recording.tags["title"] == "Ein Titel; schön"
        assert recording.tags["artist"] == "X"
        chapters = [(each.start, each.end, each.title) for each in recording.chapters]
        assert chapters == [(0.0, 2.5, "Anfang"), (2.5, 6.0, "Ende")]


class TestTracks:
    @pytest.fixture
    def several(self, tmp_path: Path) -> Path:
        tones = [
            ("-f", "lavfi", "-i", f"sine=f={hertz}:d=2:r={RATE}") for hertz in (400, 800, 1200)
        ]
        return made(
            tmp_path / "several.mkv", *moving(2), *tones[0], *tones[1], *tones[2],
            "-map", "0", "-map", "1", "-map", "2", "-map", "3", "-c:a", "flac",
            "-metadata:s:a:0", "language=ger", "-metadata:s:a:1", "language=eng",
            "-metadata:s:a:2", "language=fre", "-metadata:s:a:2", "title=Commentaire",
            "-disposition:a", "0", "-disposition:a:1", "default",
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("language", "hertz"), [(None, 800), ("de", 400), ("en", 800), ("fr", 1200), ("it", 800)]
    )
    def test_the_track_in_the_language_is_decoded_else_the_default(
        self, tmp_path: Path, several: Path, language: str | None, hertz: int
    ) -> None:
        _, samples = decode_samples(several, tmp_path / "raw", language=language)
        strongest = np.argmax(np.abs(np.fft.rfft(samples[:RATE])))
        assert strongest == hertz

    def test_tracks_are_listed_with_their_languages(self, several: Path) -> None:
        sounds = probe(str(several)).audio_tracks
        assert [(each.stream, each.language) for each in sounds] == [
            (1, "de"),
            (2, "en"),
            (3, "fr"),
        ]

    def test_without_any_there_is_none_to_choose(self, tmp_path: Path) -> None:
        recording = probe(str(made(tmp_path / "mute.mp4", *moving(1))))
        assert recording.audio_tracks == ()
        assert select_audio_track(recording.audio_tracks) is None

    @pytest.mark.parametrize("channels", [12, 17, 64])
    def test_many_channels_are_mixed(self, tmp_path: Path, channels: int) -> None:
        path = tmp_path / "many.wav"
        path.write_bytes(wav(channels))
        _, samples = decode_samples(path, tmp_path / "raw")
        assert samples[1000:7000] == pytest.approx(0x2010 / 32768, abs=0.01)

    def test_300_channels_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "many.wav"
        path.write_bytes(wav(300))
        with pytest.raises(UnsupportedFile, match="300 channels; at most 64"):
            decode_samples(path, tmp_path / "raw")


class TestTimes:
    @pytest.mark.parametrize("name", ["l.mp4", "l.mov", "l.mkv", "l.webm", "l.ts"])
    def test_a_track_that_starts_late_stays_late(self, tmp_path: Path, name: str) -> None:
        path = made(
            tmp_path / name, *moving(9), "-itsoffset", "2.5", "-i", speech(), "-ar", "48000",
            "-map", "0", "-map", "1",
        )  # fmt: skip
        decoded, samples = decode_samples(path, tmp_path / "raw")
        at, similarity = position_of(words()[: -RATE // 4], samples)
        assert at == pytest.approx(2.5, abs=0.05)
        assert similarity > 0.95
        assert decoded.seconds == pytest.approx(2.5 + length_of(speech()), abs=0.05)

    @pytest.mark.parametrize("name", ["g.mkv", "g.mp4"])
    def test_a_gap_is_silence_and_what_follows_keeps_its_time(
        self, tmp_path: Path, name: str
    ) -> None:
        whole = made(tmp_path / "whole.wav", "-i", speech(), "-i", speech(), "-filter_complex",
                     "[1]adelay=30000[b];[0][b]amix=duration=longest:normalize=0")  # fmt: skip
        path = made(
            tmp_path / name, "-i", whole, "-af", "aselect='not(between(t,10,29))'",
        )  # fmt: skip
        decoded, samples = decode_samples(path, tmp_path / "raw")
        assert decoded.gaps == pytest.approx(19, abs=0.2)
        assert decoded.warnings() == ("The audio has gaps of 19 s in total",)
        at, similarity = position_of(words()[: -RATE // 4], samples[20 * RATE :])
        assert at + 20 == pytest.approx(30, abs=0.06)
        assert similarity > 0.95

    def test_a_gap_of_hours_takes_neither_memory_nor_disk(self, tmp_path: Path) -> None:
        path = made(
            tmp_path / "gap.mkv", "-i", speech(), "-af", "asetpts='PTS+if(gt(T,3),36000/TB,0)'",
            "-c:a", "pcm_s16le",
        )  # fmt: skip
        recording = probe(str(path))
        into = tmp_path / "raw"
        decoded = decode_audio(
            str(path), str(into), recording=recording, track=recording.audio_tracks[0],
            max_seconds=ENOUGH, timeout_s=SECONDS,
        )  # fmt: skip
        assert decoded.seconds == pytest.approx(36_000 + length_of(speech()), abs=0.1)
        assert into.stat().st_blocks * 512 < 2_000_000
        with pytest.raises(FileTooLarge):
            decode_samples(path, into, max_seconds=3600)

    def test_a_variable_frame_rate_changes_nothing(self, tmp_path: Path) -> None:
        path = made(
            tmp_path / "vfr.mkv", *moving(8), "-i", speech(), "-map", "0", "-map", "1",
            "-vf", "select='if(lt(t,3),1,not(mod(n,7)))'", "-fps_mode", "vfr", "-c:a", "flac",
        )  # fmt: skip
        _, samples = decode_samples(path, tmp_path / "raw")
        assert position_of(words(), samples)[0] < 0.05

    def test_samples_are_cut_to_the_sample(self, tmp_path: Path) -> None:
        path = tmp_path / "raw"
        path.write_bytes(b"".join(struct.pack("<h", number % 1000) for number in range(RATE * 3)))
        samples = read_samples(str(path), 1.0, 1.5)
        assert samples.dtype == np.float32
        assert (len(samples), samples[0], samples[1]) == (RATE // 2, 0.0, np.float32(1 / 32768))
        assert len(read_samples(str(path), 2.5, 99.0)) == RATE // 2
        assert len(read_samples(str(path), 5.0, 6.0)) == 0
        assert len(read_samples(str(path), -1.0, 1.0)) == RATE


class TestDamage:
    @pytest.mark.parametrize("name", ["a.mp3", "a.flac", "a.m4a", "a.mka"])
    def test_a_broken_tail_is_reported_and_the_rest_is_kept(
        self, tmp_path: Path, name: str
    ) -> None:
        content = minute(name)
        path = tmp_path / name
        path.write_bytes(content[: len(content) * 6 // 10])
        decoded, _ = decode_samples(path, tmp_path / "raw")
        assert 30 < decoded.seconds < 40
        assert decoded.missing == pytest.approx(60 - decoded.seconds, abs=0.5)
        assert decoded.warnings()[0].endswith("s shorter than the file declares")

    @pytest.mark.parametrize("name", ["a.ogg", "a.ts", "a.aac", "a.wav"])
    def test_what_does_not_know_its_length_is_as_long_as_it_is(
        self, tmp_path: Path, name: str
    ) -> None:
        content = minute(name)
        path = tmp_path / name
        path.write_bytes(content[: len(content) * 6 // 10])
        decoded, _ = decode_samples(path, tmp_path / "raw")
        assert 30 < decoded.seconds < 40

    @pytest.mark.parametrize(
        "name", ["a.mp3", "a.flac", "a.m4a", "a.mka", "a.ogg", "a.opus", "a.ts", "a.aac"]
    )
    def test_damage_in_the_middle_is_no_result(self, tmp_path: Path, name: str) -> None:
        content = minute(name)
        middle, hole = len(content) // 2, len(content) // 5
        path = tmp_path / name
        path.write_bytes(content[:middle] + bytes(hole) + content[middle + hole :])
        with pytest.raises(FileCorrupt, match=r"damaged: about \d+ s of its audio"):
            decode_samples(path, tmp_path / "raw")
        assert not (tmp_path / "raw").exists()

    def test_a_file_without_its_index_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "a.m4a"
        path.write_bytes(sound("a.m4a").read_bytes()[:20_000])
        with pytest.raises(FileCorrupt):
            probe(str(path))

    def test_undecodable_audio_is_refused(self, tmp_path: Path) -> None:
        content = bytearray(self.whole_m4a())
        at = content.index(b"mdat") + 4
        content[at:] = b"\xff" * (len(content) - at)
        path = tmp_path / "a.m4a"
        path.write_bytes(content)
        with pytest.raises(FileCorrupt):
            decode_samples(path, tmp_path / "raw")

    def whole_m4a(self) -> bytes:
        path = sound("a.m4a").with_name("index_first.m4a")
        return made(
            path, "-i", sound("a.m4a"), "-c", "copy", "-movflags", "+faststart"
        ).read_bytes()

    def test_pictures_that_begin_in_the_middle_are_no_damage_to_the_sound(
        self, tmp_path: Path
    ) -> None:
        film = made(
            tmp_path / "whole.ts", *moving(7), "-i", speech(), "-c:v", "libx264", "-g", "30",
            "-c:a", "aac", "-ar", "48000",
        ).read_bytes()  # fmt: skip
        path = tmp_path / "part.ts"
        path.write_bytes(film[: 188 * 3] + film[len(film) // 3 // 188 * 188 :])
        decoded, _ = decode_samples(path, tmp_path / "raw")
        assert 3 < decoded.seconds < 6
        assert decoded.warnings() == ()

    def test_encrypted_audio_is_refused_as_such(self, tmp_path: Path) -> None:
        path = made(
            tmp_path / "a.mp4", "-i", speech(), "-c:a", "aac",
            "-encryption_scheme", "cenc-aes-ctr", "-encryption_key", "0123456789abcdef" * 2,
            "-encryption_kid", "fedcba9876543210" * 2,
        )  # fmt: skip
        with pytest.raises(FileEncrypted):
            decode_samples(path, tmp_path / "raw")

    @pytest.mark.parametrize(
        ("name", "content", "error"),
        [
            ("a.mp3", b"", FileCorrupt),
            ("a.mp3", b"This is a text, whatever its name says.\n" * 100, UnsupportedFile),
            ("a.mp4", b"%PDF-1.7 and so on", UnsupportedFile),
            ("a.wav", b"RIFF\x24\x00\x00\x00WAVE", FileCorrupt),
            ("a.wav", bytes(5000), UnsupportedFile),
            ("a.ogg", b"OggS" + bytes(3000), FileCorrupt),
            ("a.mkv", b"\x1aE\xdf\xa3" + bytes(3000), FileCorrupt),
            ("a.mp4", b"\x00\x00\x00\x18ftypmp42" + bytes(3000), FileCorrupt),
        ],
    )
    def test_what_is_no_recording_is_refused_by_name(
        self, tmp_path: Path, name: str, content: bytes, error: type[Exception]
    ) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(error) as caught:
            probe(str(path))
        assert str(tmp_path) not in str(caught.value)


class TestLimits:
    def test_a_length_that_is_declared_is_checked_before(self, tmp_path: Path) -> None:
        path = long_sound(tmp_path / "a.m4a", 20)
        with pytest.raises(FileTooLarge, match="longer than the limit of 10 s"):
            decode_samples(path, tmp_path / "raw", max_seconds=10)
        assert os.listdir(tmp_path) == ["a.m4a"]

    def test_a_length_that_is_not_declared_is_checked_while_it_is_decoded(
        self, tmp_path: Path
    ) -> None:
        path = long_silence(tmp_path / "long.wav", 3 * 3600)
        recording = probe(str(path))
        hidden = Recording(format="wav", duration=None, audio_tracks=recording.audio_tracks)
        begun = time.monotonic()
        with pytest.raises(FileTooLarge) as caught:
            decode_audio(str(path), str(tmp_path / "raw"), recording=hidden,
                   track=recording.audio_tracks[0], max_seconds=60, timeout_s=SECONDS)  # fmt: skip
        assert caught.value.details == {"limit_s": 60}
        assert time.monotonic() - begun < 20
        assert os.listdir(tmp_path) == ["long.wav"]

    def test_a_year_declared_in_a_few_bytes_does_not_matter(self, tmp_path: Path) -> None:
        content = bytearray(
            made(tmp_path / "a.mka", "-i", speech(), "-c:a", "libopus").read_bytes()
        )
        at = content.index(b"\x44\x89\x88") + 3  # the duration, in milliseconds
        content[at : at + 8] = struct.pack(">d", 365 * 86400 * 1000.0)
        path = tmp_path / "year.mka"
        path.write_bytes(content)
        assert probe(str(path)).duration is None
        decoded, _ = decode_samples(path, tmp_path / "raw", max_seconds=60)
        assert decoded.seconds == pytest.approx(length_of(speech()), abs=0.05)

    def test_a_sparse_file_that_claims_hours_is_ended(self, tmp_path: Path) -> None:
        path = tmp_path / "sparse.wav"
        path.write_bytes(wav(1, claimed=0x7FFFFF00))
        os.truncate(path, 0x7FFFFF00 + 44)
        with pytest.raises(FileTooLarge):
            decode_samples(path, tmp_path / "raw", max_seconds=3600)

    def test_a_wav_that_claims_more_than_there_is_is_as_long_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "claims.wav"
        path.write_bytes(wav(1, claimed=0xFFFFFFF0))
        decoded, _ = decode_samples(path, tmp_path / "raw")
        assert decoded.seconds == pytest.approx(0.5, abs=0.01)

    def test_it_ends_in_time(self, tmp_path: Path) -> None:
        path = long_silence(tmp_path / "long.wav", 6 * 3600)
        recording = probe(str(path))
        with pytest.raises(ProcessingTimeout, match=r"within 0\.05 s"):
            decode_audio(str(path), str(tmp_path / "raw"), recording=recording,
                   track=recording.audio_tracks[0], max_seconds=ENOUGH, timeout_s=0.05)  # fmt: skip
        assert os.listdir(tmp_path) == ["long.wav"]

    def test_how_far_it_has_got_can_be_asked(self, tmp_path: Path) -> None:
        path = long_silence(tmp_path / "long.wav", 3600)
        into = tmp_path / "raw"
        assert decoded_seconds(str(into)) == 0
        seen: list[float] = []
        recording = probe(str(path))
        limits = {"max_seconds": ENOUGH, "timeout_s": SECONDS}
        work = threading.Thread(
            target=decode_audio,
            args=(str(path), str(into)),
            kwargs={"recording": recording, "track": recording.audio_tracks[0], **limits},
        )
        work.start()
        while work.is_alive():
            seen.append(decoded_seconds(str(into)))
            work.join(0.01)
        assert decoded_seconds(str(into)) == 3600
        assert [each for each in seen if 0 < each < 3600]
        assert seen[:-1] == sorted(seen[:-1])

    def test_without_the_program_it_says_what_to_install(self) -> None:
        with pytest.raises(EngineUnavailable, match="install ffmpeg"):
            probe(str(speech()), program="/nowhere/ffmpeg")

    def test_a_full_disk_has_a_name(self, tmp_path: Path) -> None:
        path = long_silence(tmp_path / "long.wav", 3600)
        with small_disk(tmp_path / "disk") as disk:
            with pytest.raises(FileTooLarge, match="no space left on the disk"):
                decode_samples(path, disk / "raw")
            assert os.listdir(disk) == []


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """With space for half a minute of audio."""
    path.mkdir()
    options = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"]
    try:
        subprocess.run(["mount", *options, path], check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True, timeout=10)


def test_a_track_is_chosen_by_language_then_default_then_order() -> None:
    def track(stream: int, language: str | None, *, is_default: bool = False) -> AudioTrack:
        return AudioTrack(
            stream=stream, codec="aac", channels=1, layout="mono", language=language,
            is_default=is_default,
        )  # fmt: skip

    tracks = [track(1, None), track(2, "de"), track(3, "en", is_default=True), track(4, "de")]
    assert [
        chosen.stream
        for language in (None, "de", "en", "it")
        if (chosen := select_audio_track(tracks, language))
    ] == [3, 2, 3, 3]
