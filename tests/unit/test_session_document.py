"""The files of a talk, among those of all talks."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from secretary.handlers.session_document import publish


def test_translations_of_a_talk_that_end_at_the_same_time_share_its_files(tmp_path: Path) -> None:
    sources = [tmp_path / f"job-{number}" for number in range(8)]
    for source in sources:
        (source / "assets").mkdir(parents=True)
        for number in range(20):
            (source / "assets" / f"slide_{number}.jpg").write_text("the same")
    start = Barrier(len(sources))

    def published(source: Path) -> None:
        start.wait(10)
        publish(source, tmp_path / "sessions")

    with ThreadPoolExecutor(len(sources)) as pool:
        list(pool.map(published, sources))
    made = sorted(path.name for path in (tmp_path / "sessions" / "assets").iterdir())
    assert made == sorted(f"slide_{number}.jpg" for number in range(20))
