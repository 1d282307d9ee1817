"""Samples placed by the timestamps of their frames."""

from pathlib import Path

from secretary.media.pcm import Timeline, TimelineAnchor, apply_timeline

RATE = 100
FRAME = 5


def lines(*runs: tuple[int, int]) -> bytes:
    """Frames without a gap: a time, and how many follow from there."""
    times = [time + FRAME * number for time, count in runs for number in range(count)]
    return b"#tb 0: 1/100\n" + b"".join(
        b"0, %10d, %10d, %8d, %8d, 0x0\n" % (time, time, FRAME, FRAME * 2) for time in times
    )


def timeline(*runs: tuple[int, int], **options: float) -> Timeline:
    made = Timeline(RATE, **options)
    made.feed(lines(*runs))
    return made


def sound(tmp_path: Path, made: Timeline) -> list[int]:
    """The samples are numbered from 1."""
    raw = tmp_path / "raw"
    numbers = range(1, made.samples + 1)
    raw.write_bytes(b"".join(number.to_bytes(2, "little") for number in numbers))
    content = apply_timeline(raw, made, tmp_path / "whole").read_bytes()
    return [int.from_bytes(content[at : at + 2], "little") for at in range(0, len(content), 2)]


def test_sound_without_gaps_stays_as_it_is(tmp_path: Path) -> None:
    made = timeline((0, 40))
    assert made.anchors == (TimelineAnchor(0, 0),)
    assert (made.seconds, made.gaps) == (2.0, 0.0)
    assert apply_timeline(tmp_path / "raw", made, tmp_path / "whole") == tmp_path / "raw"


def test_a_late_start_is_silence_and_no_gap(tmp_path: Path) -> None:
    made = timeline((300, 40))
    assert (made.seconds, made.gaps) == (5.0, 0.0)
    assert sound(tmp_path, made) == [0] * 300 + list(range(1, 201))


def test_what_is_before_second_0_is_left_out(tmp_path: Path) -> None:
    made = timeline((-50, 40))
    assert made.seconds == 1.5
    assert sound(tmp_path, made) == list(range(51, 201))


def test_second_0_is_where_the_recording_starts() -> None:
    assert timeline((500, 40), start=5.0).anchors == (TimelineAnchor(0, 0),)
    assert timeline((700, 40), start=5.0).anchors == (TimelineAnchor(0, 200),)


def test_a_gap_is_silence(tmp_path: Path) -> None:
    made = timeline((0, 20), (400, 20))
    assert (made.seconds, made.gaps) == (5.0, 3.0)
    assert sound(tmp_path, made) == [*range(1, 101), *[0] * 300, *range(101, 201)]


def test_times_that_are_a_little_off_change_nothing() -> None:
    made = Timeline(RATE)
    for number in range(100):
        made.feed(lines((number * FRAME + (8 if number % 2 else 0), 1)))
    assert made.anchors == (TimelineAnchor(0, 0),)


def test_one_wrong_time_changes_nothing() -> None:
    made = timeline((0, 20), (9000, 1), (105, 20))
    assert made.anchors == (TimelineAnchor(0, 0),)
    assert made.seconds == 2.05


def test_times_that_drift_away_are_followed() -> None:
    """As from a device with a slow clock, 2 % here."""
    made = Timeline(RATE)
    for number in range(1000):
        made.feed(lines((round(number * FRAME * 1.02), 1)))
    assert abs(made.seconds - 51) < 0.2


def test_a_small_overlap_is_left_out(tmp_path: Path) -> None:
    made = timeline((0, 20), (50, 20))
    assert made.seconds == 1.5
    assert sound(tmp_path, made) == [*range(1, 51), *range(101, 201)]


def test_where_times_begin_anew_no_sound_is_lost() -> None:
    made = timeline((0, 100), (0, 100), (0, 100))
    assert made.anchors == (TimelineAnchor(0, 0),)
    assert made.seconds == 15.0


def test_a_jump_beyond_the_longest_gap_begins_anew() -> None:
    made = timeline((0, 20), (100_000, 20), (100_300, 20), max_gap=60)
    assert (made.seconds, made.gaps) == (5.0, 2.0)


def test_lines_may_come_in_pieces() -> None:
    made = Timeline(RATE)
    for byte in lines((0, 20), (400, 20)):
        made.feed(bytes([byte]))
    assert made.anchors == (TimelineAnchor(0, 0), TimelineAnchor(100, 400))


def test_a_gap_takes_no_room_on_disk(tmp_path: Path) -> None:
    made = timeline((0, 20), (100_000_000, 20))
    (tmp_path / "raw").write_bytes(bytes(400))
    whole = apply_timeline(tmp_path / "raw", made, tmp_path / "whole")
    assert whole.stat().st_size == 200_000_200
    assert whole.stat().st_blocks * 512 < 1_000_000
