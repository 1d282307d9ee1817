"""Recordings beside the bare engines and ffmpeg."""

from collections.abc import Iterator, Mapping, Sequence

import media_report
from publishing.result import Aim, Cell, Chart, Digest, Table
from recordings import memory
from recordings.engines import ALONE, FASTER_WHISPER, WINDOWS, YARDSTICKS
from recordings.hearing import our_name

from .figures import Found, at_least, middle, spread, text_of


def digest(found: Mapping[str, Found]) -> Digest:
    (run,) = found.values()
    hearing, plan = run["hearing"], run["plan"]
    tables: list[Table] = []
    charts: list[Chart] = []
    if hearing:
        tables.append(_hearing(hearing, plan))
        charts.append(_hearing_chart(hearing))
    if run["decoding"]:
        tables.append(_decoding(run["decoding"], plan))
        charts.append(_decoding_chart(run["decoding"]))
    if run["memory"]:
        tables.append(_memory(run["memory"]))
    return Digest(
        tables=tuple(tables),
        charts=tuple(charts),
        aims=(*_hearing_aims(hearing), *_decoding_aims(run["decoding"])),
        plan=plan,
        versions=_versions(hearing),
        failures=tuple(_failures(run)),
    )


def _versions(hearing: Found | None) -> dict[str, str]:
    if not hearing:
        return {}
    return {FASTER_WHISPER.name: hearing["paces"][FASTER_WHISPER.name]["version"]}


def _hearing(hearing: Found, plan: Found) -> Table:
    titles = ("times real time", "s", "CPU s", "cores", "WER %")
    rows: list[tuple[Cell, ...]] = []
    for pace in hearing["paces"].values():
        cores = [cpu / wall for cpu, wall in zip(pace["cpu_s"], pace["wall_s"], strict=True)]
        rate = pace["error_rate"]
        rows.append(
            (
                pace["name"],
                *map(spread, (pace["times_real"], pace["wall_s"], pace["cpu_s"], cores)),
                None if rate is None else rate * 100,
                *(spread(pace["times_bare"].get(tool.name, [])) for tool in YARDSTICKS),
            )
        )
    head = ("", *titles, *(f"times {tool.name}" for tool in YARDSTICKS))
    notes = media_report.HEARING_NOTES.format(
        minutes=hearing["seconds"] / 60,
        words=hearing["words"],
        rounds=plan["rounds"],
        pieces=hearing["pieces"],
        faster=FASTER_WHISPER.name,
        windows=WINDOWS.name.capitalize(),
        alone=ALONE.name.capitalize(),
    )
    return Table(head, tuple(rows), text_of(notes), title="Speech")


def _hearing_chart(hearing: Found) -> Chart:
    rows = {name: (middle(pace["times_real"]),) for name, pace in hearing["paces"].items()}
    title = "How many times faster than it was spoken"
    return Chart("hearing", "bars", title, "times real time", ("times",), rows)


def _decoding(found: Sequence[Found], plan: Found) -> Table:
    columns = {
        "ours s": "ours_s",
        "plain s": "plain_s",
        "times plain": "times_plain",
        "ours CPU s": "ours_cpu_s",
        "plain CPU s": "plain_cpu_s",
        "to look in s": "look_s",
    }
    rows = tuple((one["kind"], *(spread(one[key]) for key in columns.values())) for one in found)
    minutes, rounds = plan["decoded_minutes"], plan["decoding_rounds"]
    notes = media_report.DECODING_NOTES.format(minutes=minutes, rounds=rounds)
    return Table(("", *columns), rows, text_of(notes), title="Decoding")


def _decoding_chart(found: Sequence[Found]) -> Chart:
    rows = {one["kind"]: (middle(one["ours_s"]), middle(one["plain_s"])) for one in found}
    title = "To decode a file (less is better)"
    return Chart("decoding", "bars", title, "seconds", ("ours", "plain ffmpeg"), rows)


def _memory(peaks: Sequence[Found]) -> Table:
    titles = ("min", "speech %", "service MB", "child MB", "ffmpeg MB", "together MB")
    rows = tuple((peak["length"]["name"], *_peak(peak)) for peak in peaks)
    notes = media_report.MEMORY_NOTES.format(processes=memory.PROCESSES)
    head = ("recording of", *titles, "scratch MB", "took s")
    return Table(head, rows, text_of(notes), title="Memory")


def _peak(peak: Found) -> tuple[Cell, ...]:
    if peak["failure"]:
        return (None,) * 8
    length = peak["length"]
    share = length["speech_s"] / (length["speech_s"] + length["quiet_s"]) * 100
    keys = ("service_mb", "child_mb", "ffmpeg_mb", "together_mb", "scratch_mb", "took_s")
    seen = ("" if peak[key] is None else peak[key] for key in keys)
    return (peak["seconds"] / 60, share, *seen)


def _hearing_aims(hearing: Found | None) -> Iterator[Aim]:
    if not hearing:
        return
    for tool in YARDSTICKS:
        for count, aim in media_report.AIMS.items():
            samples = hearing["paces"][our_name(count)]["times_bare"].get(tool.name, [])
            what = f"speech, {count} process{'es' if count > 1 else ''}, times {tool.name}"
            yield at_least(what, aim, middle(samples), unit="times", beside=tool.name)


def _decoding_aims(found: Sequence[Found]) -> Iterator[Aim]:
    ratios = {one["kind"]: ratio for one in found if (ratio := middle(one["times_plain"]))}
    if ratios:
        worst = min(ratios, key=lambda kind: ratios[kind])
        what = f"decoding, times plain ffmpeg, worst ({worst})"
        yield Aim(what, "", ratios[worst], "times", None, "plain ffmpeg", ratios[worst])


def _failures(run: Found) -> Iterator[str]:
    yield from run["failures"]
    for pace in run["hearing"]["paces"].values() if run["hearing"] else ():
        yield from (f"{pace['name']}: {failure}" for failure in pace["failures"])
    for one in run["decoding"]:
        if one["failure"]:
            yield f"decoding, {one['kind']}: {one['failure']}"
    for peak in run["memory"]:
        if peak["failure"]:
            yield f"memory, {peak['length']['name']}: {peak['failure']}"
