"""Languages, by code or by name."""

NAMES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "fi": "Finnish", "fr": "French", "hu": "Hungarian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "no": "Norwegian", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "tr": "Turkish",
    "uk": "Ukrainian", "zh": "Chinese",
}  # fmt: skip
CODES = {name.lower(): code for code, name in NAMES.items()} | {"deutsch": "de", "englisch": "en"}


def language_code(language: str) -> str | None:
    """`de` for `de-AT` and for `German`; None for what is neither a code nor a name we know."""
    word = language.strip().lower()
    code = word.replace("_", "-").partition("-")[0]
    return code if len(code) == 2 and code.isalpha() else CODES.get(word)


def language_name(language: str) -> str | None:
    """In English. A name we do not know is taken at its word, if it is one word: it goes into
    a model's instructions, and must not be able to be one."""
    known = NAMES.get(language_code(language) or "")
    word = language.strip()
    return known or (word if word.isalpha() and len(word) <= 35 else None)
