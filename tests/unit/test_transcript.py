"""A transcript has paragraphs, chapters and slides."""

from secretary.media.probe import Chapter
from secretary.media.speech.engines import TimedText
from secretary.media.transcript import TranscriptImage, as_markdown, format_clock, paragraphs


def markdown(segments: list[TimedText], **options: object) -> str:
    return "".join(as_markdown(segments, title=None, **options))  # type: ignore[arg-type]


def test_sentences_of_one_breath_make_a_paragraph() -> None:
    segments = [TimedText(0, 2, "One."), TimedText(2.5, 4, "Two."), TimedText(9, 10, "Three.")]
    assert [paragraph.text for paragraph in paragraphs(segments)] == ["One. Two.", "Three."]


def test_a_speaker_without_pauses_is_read_in_paragraphs_all_the_same() -> None:
    segments = [
        TimedText(i, i + 1, "Some words in a row make up a sentence here.") for i in range(100)
    ]
    sizes = [len(paragraph.text) for paragraph in paragraphs(segments)]
    assert len(sizes) > 5
    assert max(sizes) < 700


def test_a_paragraph_ends_where_a_chapter_begins() -> None:
    segments = [TimedText(0, 2, "One."), TimedText(2.2, 4, "Two.")]
    chapters = [Chapter(start=0, end=2, title="First"), Chapter(start=2, end=9, title="2nd *")]
    assert markdown(segments, chapters=chapters) == (
        "## First (00:00)\n\n**[00:00]** One.\n\n## 2nd \\* (00:02)\n\n**[00:02]** Two.\n\n"
    )


def test_a_slide_precedes_what_is_said_about_it() -> None:
    segments = [TimedText(0, 2, "One."), TimedText(2.2, 4, "Two.")]
    pictures = [TranscriptImage(time=2, file="frame_001.jpg", text="Title\n\nA point")]
    assert markdown(segments, images=pictures) == (
        "**[00:00]** One.\n\n![00:02](frame_001.jpg)\n\n> Title\n> A point\n\n**[00:02]** Two.\n\n"
    )


def test_chapters_and_slides_are_shown_where_nothing_is_said() -> None:
    chapters = [Chapter(start=5, end=9, title="Music")]
    pictures = [TranscriptImage(time=7, file="frame_001.jpg")]
    assert markdown([], chapters=chapters, images=pictures) == (
        "## Music (00:05)\n\n![00:07](frame_001.jpg)\n\n"
    )


def test_what_is_said_is_no_markup() -> None:
    assert "\\# \\<b\\> \\[x\\](y)" in markdown([TimedText(0, 1, "# <b> [x](y)")])


def test_a_title_is_one_line() -> None:
    assert "".join(as_markdown([], title="A\nB")) == "# A B\n\n"


def test_times_have_hours_where_there_are_any() -> None:
    assert format_clock(59.9) == "00:59"
    assert format_clock(3723) == "1:02:03"
