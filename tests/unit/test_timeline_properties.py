"""Whatever timestamps a damaged recording has: its audio is laid out in a file of that length."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from secretary.media.pcm import Timeline, apply_timeline

RATE = 100
#: No recording longer than this is laid out.
LONGEST_S = 600
#: A frame: its time and number of samples. Most are contiguous, some jump.
JUMPS = st.integers(-(2**63), 2**63 - 1) | st.integers(-50 * RATE, 50 * RATE)


@st.composite
def frames(draw: st.DrawFn) -> list[tuple[int, int]]:
    result, at = [], 0
    for _ in range(draw(st.integers(0, 30))):
        if draw(st.integers(0, 4)) == 0:
            at = draw(JUMPS)
        size = draw(st.integers(0, 2 * RATE))
        result.append((at, size))
        at += size
    return result


@given(
    frames(),
    st.floats(-100, 100),
    st.sampled_from((float("inf"), 60.0)),
    st.integers(1, 200),
)
def test_the_sound_stands_where_the_times_say(
    timestamps: list[tuple[int, int]], start: float, longest_gap: float, cut: int
) -> None:
    timeline = Timeline(RATE, start=start, max_gap=longest_gap)
    lines = "".join(f"0, {at}, {at}, {size}, {2 * size}, 0x0\n" for at, size in timestamps).encode()
    for offset in range(0, len(lines), cut):
        timeline.feed(lines[offset : offset + cut])
    total = sum(size for _, size in timestamps)
    assert timeline.samples == total
    assert timeline.seconds >= 0 and timeline.gaps >= 0
    raws = [piece.raw for piece in timeline.anchors]
    assert raws == sorted(raws) and all(raw <= total for raw in raws)
    if timeline.seconds > LONGEST_S or timeline.seconds <= 0:
        return
    with tempfile.TemporaryDirectory() as directory:
        raw = Path(directory, "raw")
        raw.write_bytes(bytes(range(1, 3)) * total)
        whole = apply_timeline(raw, timeline, Path(directory, "whole"))
        assert whole.stat().st_size / 2 / RATE <= timeline.seconds + 1e-9


@given(st.binary(max_size=300) | st.text("0123456789,-# \n", max_size=300).map(str.encode))
def test_lines_that_are_none_do_no_harm(stderr: bytes) -> None:
    timeline = Timeline(RATE)
    timeline.feed(stderr + b"\n0, 0, 0, 100, 200, 0x0\n")
    assert timeline.samples >= 0
