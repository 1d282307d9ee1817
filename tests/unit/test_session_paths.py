"""The paths of session documents."""

import re
import unicodedata
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from secretary.web.talk import (
    MAX_FOLDER,
    MAX_STEM,
    SessionPaths,
    file_stem,
    filename_key,
    folder_name,
    language_name,
    published_root,
    session_paths,
    title_stem,
    unique_stems,
)

RESERVED = {
    "CON",
    "PRN",
    "AUX",
    "NUL",
    *(f"{port}{n}" for port in ("COM", "LPT") for n in range(10)),
}

HOSTILE = st.one_of(
    st.none(),
    st.text(max_size=300),
    st.text("./\\ :*?\"<>|$`'~-\0\n\r\u202e\u200b\uff0f\u2215CONconNUL1aÄä.md", max_size=60),
    st.sampled_from(
        ["..", ".", "/", "../../etc/passwd", "C:\\Windows\\win.ini", "\\\\host\\share", "CON",
         "con.md", "nul .md", "LPT1", "COM¹", "-rf", "~root", "$HOME", "a" * 5000, "ä" * 300,
         "a\0b", ".git", "talk.md", "TALK.MD", "assets", "%2e%2e%2f",
         "\uff0e\uff0e\uff0f", "\ud800", "e\u0301" * 200,
         "x. . ."]
    ),
)  # fmt: skip


def paths(**given: str | None) -> SessionPaths:
    names = ("event", "language", "track", "session", "filename")
    return session_paths(**{name: given.get(name) for name in names})


def test_the_example_of_the_first_clients_keeps_its_names() -> None:
    result = paths(
        event="FOSDEM 2025",
        language="de",
        track="Main-Track-Janson-7",
        session="Forked Communities: Project Re-licensing and Community Impact",
        filename="Forked-Communities-Project-Relicensing-and-Community-Impact.md",
    )
    stem = "Forked-Communities-Project-Relicensing-and-Community-Impact"
    assert str(result.document) == f"sessions/FOSDEM 2025/de/Main-Track-Janson-7/{stem}.md"
    assert str(result.assets) == f"sessions/FOSDEM 2025/assets/{stem}"
    assert str(result.assets_from_document) == f"../../assets/{stem}"


def test_without_a_file_name_the_title_names_the_file() -> None:
    result = paths(session="What's new? C++ & Öffentlichkeit: Teil 2/3")
    name = "sessions/Event/und/General/Whats-new-C++-Öffentlichkeit-Teil-2-3.md"
    assert str(result.document) == name


def test_empty_facts_still_give_a_path() -> None:
    assert str(paths().document) == "sessions/Event/und/General/Session.md"


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\win.ini", "win.ini"),
        ("talk.md.md", "talk"),
        ("Talk.MD", "Talk"),
        ("..", ""),
        ("/", ""),
        (".hidden", "hidden"),
        ("CON.md", "_CON"),
        ("nul", "_nul"),
        ("a\u202egnp.exe", "a-gnp.exe"),
        ("-rf", "rf"),
        ("$(rm -rf ~)", "rm-rf"),
        ("日本語の講演.md", "日本語の講演"),
    ],
)
def test_the_file_name_of_a_client_becomes_one_part(name: str, stem: str) -> None:
    assert file_stem(name) == stem


@pytest.mark.parametrize(
    ("text", "name"),
    [("de", "de"), ("pt_BR", "pt-br"), ("de-DE", "de-de"), ("assets", "und"), ("../x", "und")],
)
def test_a_language_is_a_short_code(text: str, name: str) -> None:
    assert language_name(text) == name


@pytest.mark.parametrize(
    ("user", "folder"),
    [
        (None, "sessions"),
        ("ann", "sessions/@ann"),
        ("ann.lee@example.org", "sessions/@ann.lee@example.org"),
        ("Ann", "sessions/@Ann~17239b6e25011033"),
        ("../ann", "sessions/@ann~2a8c40f72d4a407a"),
        ("", "sessions/@user~e3b0c44298fc1c14"),
    ],
)
def test_each_user_has_a_folder_for_documents(user: str | None, folder: str) -> None:
    assert str(published_root(user)) == folder


@settings(max_examples=300)
@given(HOSTILE, HOSTILE)
@example("ann", "Ann")
@example("ann", "ann~1")
@example("ann.", "ann")
def test_no_two_users_share_a_folder(first: str | None, second: str | None) -> None:
    roots = [published_root(user) for user in (first, second)]
    for root in roots:
        assert len(root.parts) <= 2 and root.parts[0] == "sessions"
        for part in root.parts[1:]:
            assert part.startswith("@")
            assert_safe(part.replace("~", ""))
    keys = {filename_key(str(root)) for root in roots}
    assert len(keys) == len({first, second})


@settings(max_examples=300)
@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
@example("..", "..", "..", "..", "..")
def test_no_name_leaves_its_folder(
    event: str | None,
    language: str | None,
    track: str | None,
    session: str | None,
    name: str | None,
) -> None:
    result = session_paths(
        event=event, language=language, track=track, session=session, filename=name
    )
    assert len(result.document.parts) == 5 and len(result.assets.parts) == 4
    assert result.document.parts[0] == result.assets.parts[0] == "sessions"
    assert result.document.parts[1] == result.assets.parts[1]
    assert result.assets.parts[2] == "assets" != result.document.parts[2]
    assert len(str(result.document)) < 240
    for path in (result.document, result.assets):
        assert not path.is_absolute() and not PureWindowsPath(path).drive
        for part in path.parts:
            assert_safe(part)
    resolved = PurePosixPath(result.document.parent, result.assets_from_document)
    assert _without_dots(resolved) == result.assets


@settings(max_examples=300)
@given(HOSTILE)
def test_a_name_that_is_safe_stays_as_it_is(text: str | None) -> None:
    stem, folder = title_stem(text), folder_name(text, "Event")
    assert title_stem(stem) == stem and folder_name(folder, "Event") == folder


@settings(max_examples=200)
@given(st.lists(HOSTILE.map(title_stem), max_size=12))
@example(["Talk", "TALK", "talk", "Talk-2", "talk"])
@example(["straße", "STRASSE", "Strasse"])
@example([unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")])
def test_names_of_one_place_differ_on_every_file_system(stems: list[str]) -> None:
    result = unique_stems(stems)
    assert len({filename_key(name) for name in result}) == len(stems)
    for name, stem in zip(result, stems, strict=True):
        assert name.startswith(stem)


def test_thousands_of_equal_names_are_disambiguated_quickly() -> None:
    assert unique_stems(["Talk"] * 20_000)[-1] == "Talk-20000"


def test_long_titles_that_begin_alike_stay_apart() -> None:
    one, other = ("A word and " * 30 + end for end in ("one", "other"))
    assert title_stem(one) != title_stem(other)
    assert re.fullmatch(r"(A-word-and-)+A-word-[0-9a-f]{6}", title_stem(one))


def assert_safe(part: str) -> None:
    assert part and part not in (".", "..")
    assert not re.search(r'[/\\<>:"|?*\x00-\x1f\x7f$`~#%^\[\]]', part)
    assert part == part.strip(" .") and not part.startswith("-")
    assert len(part.encode()) <= max(MAX_FOLDER, MAX_STEM) + len(".md")
    assert part.partition(".")[0].strip().upper() not in RESERVED
    assert unicodedata.normalize("NFC", part) == part
    assert all(unicodedata.category(char)[0] not in "CZ" or char == " " for char in part)


def _without_dots(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)
