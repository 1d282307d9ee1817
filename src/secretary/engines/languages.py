"""Names of languages: people write `de`, `de-DE` or `deu`, engines know three letters."""

import re

#: Two letters, or the other three, -> the three letters that data files are called by.
CODES = {
    "ar": "ara", "bg": "bul", "ca": "cat", "cs": "ces", "cze": "ces", "da": "dan", "de": "deu",
    "ger": "deu", "el": "ell", "gre": "ell", "en": "eng", "es": "spa", "et": "est", "fi": "fin",
    "fr": "fra", "fre": "fra", "ga": "gle", "he": "heb", "hi": "hin", "hr": "hrv", "hu": "hun",
    "id": "ind", "is": "isl", "ice": "isl", "it": "ita", "ja": "jpn", "ko": "kor", "lt": "lit",
    "lv": "lav", "nb": "nor", "nl": "nld", "dut": "nld", "no": "nor", "pl": "pol", "pt": "por",
    "ro": "ron", "rum": "ron", "ru": "rus", "sk": "slk", "slo": "slk", "sl": "slv", "sr": "srp",
    "sv": "swe", "th": "tha", "tr": "tur", "uk": "ukr", "vi": "vie", "zh": "chi_sim",
    "chi": "chi_sim",
}  # fmt: skip


def language_codes(languages: str) -> tuple[str, ...]:
    """`de-DE+en` -> `("deu", "eng")`, each once and in the order given."""
    codes = [_code(name) for name in re.split(r"[+,;\s]+", languages.strip()) if name]
    return tuple(dict.fromkeys(codes))


def _code(name: str) -> str:
    lower = name.lower()
    if lower.replace("_", "-").startswith(("zh-tw", "zh-hant", "zh-hk")):
        return "chi_tra"
    # `chi_sim` and `deu_latf` are names of their own, `de_DE` and `de-DE` are not.
    main = re.split(r"[-_]", lower)[0]
    return CODES.get(lower) or (CODES.get(main, main) if len(main) == 2 or "-" in lower else name)
