"""The most memory and disk that a job takes, by the length of the recording."""

import contextlib
import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from arena import Failed
from documents.service import serving
from processes import Tree, watching

from .sounds import ffmpeg, looped, meeting, write_wav

PROCESSES = 2
LOOK_EVERY_S = 0.1
SCRATCH = ".scratch"


@dataclass(frozen=True)
class Length:
    """A talk, and behind it a room in which nobody speaks, so many times."""

    name: str
    speech_s: float
    quiet_s: float = 0
    times: int = 1

    @property
    def share_of_speech(self) -> float:
        return self.speech_s / (self.speech_s + self.quiet_s)


@dataclass
class Peak:
    length: Length
    #: As the job found it.
    seconds: float = 0
    service_mb: float = 0
    #: Of the largest child process that listens.
    child_mb: float = 0
    #: None: it had ended before anybody looked.
    ffmpeg_mb: float | None = None
    #: Of all processes at one time; what they share is counted once.
    together_mb: float = 0
    scratch_mb: float = 0
    took_s: float = 0
    failure: str | None = None


@dataclass
class Highest:
    """What was highest at any time, also of processes that ended and of files that were removed."""

    #: By the id and the name of the process: a program begins as a copy of who starts it.
    processes: dict[tuple[int, str], int] = field(default_factory=dict)
    together: int = 0
    scratch: int = 0

    def look(self, tree: Tree, directory: Path) -> None:
        for process, peak in tree.named_peaks().items():
            self.processes[process] = max(peak, self.processes.get(process, 0))
        self.together = max(self.together, tree.memory_bytes())
        self.scratch = max(self.scratch, _scratch_bytes(directory))


def measure_memory(root: Path, lengths: tuple[Length, ...]) -> list[Peak]:
    """Each in a service of its own: memory that was taken once may stay taken."""
    peaks = []
    for number, length in enumerate(lengths):
        directory = root / f"length-{number}"
        directory.mkdir()
        peaks.append(_measure(length, directory))
    return peaks


def _measure(length: Length, directory: Path) -> Peak:
    peak = Peak(length)
    try:
        file = _made(length, directory)
        with serving(directory, directory, processes=PROCESSES) as service:
            highest = Highest()
            with watching(partial(highest.look, service.tree, directory), LOOK_EVERY_S):
                done = service.read(file, job_type="audio")
            leader = service.tree.leader
    except Failed as failure:
        peak.failure = str(failure)
        return peak
    peak.seconds, peak.took_s = done.job["results"]["metadata"]["duration"], done.client_s
    for (pid, name), size in highest.processes.items():
        if pid == leader:
            peak.service_mb = size / 1e6
        elif name.startswith("ffmpeg"):
            peak.ffmpeg_mb = max(peak.ffmpeg_mb or 0, size / 1e6)
        else:
            peak.child_mb = max(peak.child_mb, size / 1e6)
    peak.together_mb, peak.scratch_mb = highest.together / 1e6, highest.scratch / 1e6
    return peak


def _made(length: Length, directory: Path) -> Path:
    sound, block = meeting(length.speech_s, length.quiet_s), directory / "block.mp3"
    wav = write_wav(sound, directory / "block.wav")
    ffmpeg("-i", wav, "-c:a", "libmp3lame", "-b:a", "32k", block)
    wav.unlink()
    return looped(block, length.times, directory / "recording.mp3")


def _scratch_bytes(directory: Path) -> int:
    """What files of jobs at work take on the disk."""
    size = 0
    for place, _, names in os.walk(directory):
        if SCRATCH in place:
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    size += os.stat(os.path.join(place, name)).st_blocks * 512
    return size
