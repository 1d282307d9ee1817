"""Names of languages: people write `de`, `de-DE` or `deu`, engines know three letters."""

import re

from .language_names import ROWS

#: Two letters, or the other three, -> the three letters that data files are called by.
CODES = {row[0]: row[2] for row in ROWS} | {
    "nb": "nor", "zh": "chi_sim", "chi": "chi_sim", "cze": "ces", "dut": "nld", "fre": "fra",
    "ger": "deu", "gre": "ell", "ice": "isl", "rum": "ron", "slo": "slk",
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
