"""The language of a text, and the names of languages."""

import pytest

from secretary.core.languages import detect_language, language_codes

from ..rendered_pages import ENGLISH, GERMAN


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        ("deu", ("deu",)),
        ("deu+eng", ("deu", "eng")),
        ("de", ("deu",)),
        ("de-DE", ("deu",)),
        ("de_AT", ("deu",)),
        ("EN", ("eng",)),
        ("en-US,de", ("eng", "deu")),
        ("de+deu+ger", ("deu",)),
        ("chi_sim", ("chi_sim",)),
        ("zh-TW", ("chi_tra",)),
        ("deu_latf", ("deu_latf",)),
        ("xx", ("xx",)),
        ("", ()),
    ],
)
def test_languages_may_be_spelled_as_people_do(names: str, codes: tuple[str, ...]) -> None:
    assert language_codes(names) == codes


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (" ".join(ENGLISH), "eng"),
        (" ".join(GERMAN), "deu"),
        (GERMAN[0], "deu"),
        (ENGLISH[0], "eng"),
        # As recognized with English data: without umlauts.
        ("Mehrere Mitglieder fragten, ob sich die Heizkosten fur den Winter senken lieBen", "deu"),
        ("1234 5678 90", None),
        ("Hotel Restaurant Taxi", None),
        ("", None),
        (ENGLISH[0] + GERMAN[0], None),
    ],
)
def test_a_language_is_detected_by_its_most_common_words(text: str, language: str | None) -> None:
    assert detect_language(text) == language


def test_only_languages_that_are_there_are_found() -> None:
    french = "Le conseil est dans la salle pour parler avec les gens qui sont du village"
    assert detect_language(french, ["deu", "eng", "fra"]) == "fra"
    assert detect_language(french, ["deu", "eng"]) is None
