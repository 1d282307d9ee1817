"""The language of a template, and the one it is to be written in."""

from ..engines import language_names


def language_code(language: str) -> str | None:
    """`de` for `de-AT` and for `German`; None for what is neither a code nor a name we know."""
    code = language.strip().lower().replace("_", "-").partition("-")[0]
    return language_names.language_code(language) or (
        code if len(code) == 2 and code.isalpha() else None
    )


def language_name(language: str) -> str | None:
    """In English. A name we do not know is taken at its word, if it is one word: it goes into
    a model's instructions, and must not be able to be one."""
    name = language_names.english_name(language)
    return name if name.isalpha() and len(name) <= 35 else None
