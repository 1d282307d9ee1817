"""One language under many names."""

import pytest

from secretary.core.languages import english_name, is_same_language, language_code


@pytest.mark.parametrize(
    "name", ["de", "DE", "de-DE", "de_AT", "deu", "ger", "German", "german", "Deutsch", " de "]
)
def test_all_names_of_a_language_are_one(name: str) -> None:
    assert language_code(name) == "de"
    assert english_name(name) == "German"
    assert is_same_language(name, "de") and is_same_language("german", name)


@pytest.mark.parametrize(
    ("name", "code"),
    [("english", "en"), ("zh-Hant", "zh"), ("jw", "jv"), ("pt-BR", "pt"), ("nb", "no")],
)
def test_engines_have_names_of_their_own(name: str, code: str) -> None:
    assert language_code(name) == code


def test_others_are_others() -> None:
    assert not is_same_language("de", "en")
    assert not is_same_language("den", "de")


@pytest.mark.parametrize("name", [None, "", "auto", "und"])
def test_an_unknown_language_is_never_the_same(name: str | None) -> None:
    assert not is_same_language(name, name)


def test_an_unknown_one_stays_as_it_is() -> None:
    assert language_code("Klingon") is None
    assert english_name("Klingon") == "Klingon"
    assert is_same_language("Klingon", "klingon")
