"""Which language a text is in, told by its commonest words."""

import re
from collections.abc import Collection

#: The commonest words of each language. What two of them share tells nothing and is left out.
COMMON_WORDS = {
    "deu": "der die das und ist nicht ein eine einen einem einer zu den dem des mit von auf für im"
    " sich auch als an nach wird werden bei aus über sind oder wie zum zur haben sie er es wir ich"
    " dass wurde durch nur um vom bis sehr kann sein wenn noch fur uber",
    "eng": "the and of to is that for with as are this be by on not have from or which was at his"
    " her they were been has their its we you it he she will would can all there what when who"
    " your our but if into about than these other",
    "fra": "le les des et est une du que qui dans pour pas sur avec par ce cette sont il elle nous"
    " vous au aux mais ou leur plus son ses été être",
    "ita": "il di che è la per un una non sono con del della dei delle gli nel nella alla anche più"
    " questo questa come ma dal loro essere",
    "spa": "el los las que y en un una por con no para del es su se lo como más pero sus este esta"
    " son al también fue entre muy",
    "nld": "de het een en van is dat op te niet met voor zijn aan er ook bij naar wordt door uit"
    " maar heeft hebben deze dit werd worden",
    "por": "o os as que e um uma para com não por mais dos das como mas foi ao ele seu sua ou ser"
    " quando muito nos já está também pelo pela",
}
#: Letters that belong to one language of those above.
LETTERS = {"deu": "äöüß", "fra": "êœ", "spa": "ñ¿¡", "por": "ãõ"}


def detect_language(text: str, among: Collection[str] = ("deu", "eng")) -> str | None:
    """The language of `text`, None where it is too short or too mixed to tell."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    scores = sorted(
        ((_score(words, code), code) for code in sorted(among) if code in COMMON_WORDS),
        reverse=True,
    )
    if not scores or scores[0][0] < 3:
        return None
    if len(scores) > 1 and scores[0][0] < 2 * scores[1][0]:
        return None
    return scores[0][1]


def _score(words: list[str], code: str) -> int:
    common = set(COMMON_WORDS[code].split())
    letters = set(LETTERS.get(code, ""))
    return sum((word in common) + bool(letters & set(word)) for word in words)
