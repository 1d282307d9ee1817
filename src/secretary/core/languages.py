"""Language names and codes, and detection of a text's language."""

import re
from collections.abc import Collection

#: ISO 639-1 code, English name, and further codes and names in use.
NAMES = """\
af Afrikaans afr|am Amharic amh|ar Arabic ara arabisch|as Assamese asm|az Azerbaijani aze
ba Bashkir bak|be Belarusian bel|bg Bulgarian bul bulgarisch|bn Bengali ben bangla
bo Tibetan bod tib|br Breton bre|bs Bosnian bos bosnisch|ca Catalan cat valencian katalanisch
cs Czech ces cze tschechisch|cy Welsh cym wel|da Danish dan dänisch dansk
de German deu ger deutsch|el Greek ell gre griechisch|en English eng englisch
eo Esperanto epo|es Spanish spa castilian spanisch español|et Estonian est estnisch
eu Basque eus baq baskisch|fa Persian fas per farsi persisch|fi Finnish fin finnisch suomi
fo Faroese fao|fr French fra fre französisch français|fy Frisian fry|ga Irish gle irisch
gd Gaelic gla|gl Galician glg|gu Gujarati guj|ha Hausa hau|he Hebrew heb iw hebräisch
hi Hindi hin|hr Croatian hrv scr kroatisch|ht Haitian hat|hu Hungarian hun ungarisch magyar
hy Armenian hye arm armenisch|id Indonesian ind indonesisch|is Icelandic isl ice isländisch
it Italian ita italienisch italiano|ja Japanese jpn japanisch|jv Javanese jav jw
ka Georgian kat geo georgisch|kk Kazakh kaz|km Khmer khm|kn Kannada kan
ko Korean kor koreanisch|ku Kurdish kur kurdisch|ky Kyrgyz kir|la Latin lat latein
lb Luxembourgish ltz letzeburgesch luxemburgisch|ln Lingala lin|lo Lao lao
lt Lithuanian lit litauisch|lv Latvian lav lettisch|mg Malagasy mlg|mi Maori mri mao
mk Macedonian mkd mac mazedonisch|ml Malayalam mal|mn Mongolian mon mongolisch|mr Marathi mar
ms Malay msa may|mt Maltese mlt maltesisch|my Burmese mya bur myanmar|ne Nepali nep
nl Dutch nld dut flemish niederländisch nederlands|nn Nynorsk nno
no Norwegian nor nb nob bokmål norwegisch norsk|oc Occitan oci|pa Punjabi pan panjabi
pl Polish pol polnisch polski|ps Pashto pus pushto
pt Portuguese por portugiesisch português|ro Romanian ron rum moldavian moldovan rumänisch
ru Russian rus russisch|sa Sanskrit san|sd Sindhi snd|si Sinhala sin sinhalese
sk Slovak slk slo slowakisch|sl Slovenian slv slowenisch slovene|sn Shona sna
so Somali som|sq Albanian sqi alb albanisch|sr Serbian srp scc serbisch|su Sundanese sun
sv Swedish swe schwedisch svenska|sw Swahili swa|ta Tamil tam|te Telugu tel|tg Tajik tgk
th Thai tha thailändisch|tk Turkmen tuk|tl Tagalog tgl fil filipino|tr Turkish tur türkisch
tt Tatar tat|uk Ukrainian ukr ukrainisch|ur Urdu urd|uz Uzbek uzb
vi Vietnamese vie vietnamesisch|yi Yiddish yid jiddisch|yo Yoruba yor
zh Chinese zho chi mandarin cmn yue cantonese chinesisch|zu Zulu zul
"""
ROWS = [row.split() for row in re.split(r"[|\n]", NAMES) if row]
CODES = {name.lower(): row[0] for row in ROWS for name in row}
ENGLISH = {row[0]: row[1] for row in ROWS}


def language_code(name: str) -> str | None:
    """ISO 639-1: `de` for de, de-DE, de_AT, deu, ger, German, deutsch; None if unknown."""
    lower = name.strip().lower()
    return CODES.get(lower) or CODES.get(re.split(r"[-_ ,;(]", lower)[0])


def english_name(name: str) -> str:
    """`German` for de, deu, deutsch; unknown names are returned unchanged."""
    return ENGLISH.get(language_code(name) or "", name.strip())


def is_same_language(one: str | None, other: str | None) -> bool:
    """False if either of them is unknown."""
    if not one or not other:
        return False
    first, second = (language_code(each) or each.strip().lower() for each in (one, other))
    return first == second and first not in UNSPECIFIED


#: Codes that stand for no particular language.
UNSPECIFIED = frozenset({"", "auto", "und", "mul", "zxx", "unknown"})


#: ISO 639-1 or bibliographic code -> the code that OCR data files are named by.
THREE_LETTER_CODES = {row[0]: row[2] for row in ROWS} | {
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
    return THREE_LETTER_CODES.get(lower) or (
        THREE_LETTER_CODES.get(main, main) if len(main) == 2 or "-" in lower else name
    )


#: The most frequent words of each language, without those shared by two of them.
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
#: Letters specific to one of these languages.
LETTERS = {"deu": "äöüß", "fra": "êœ", "spa": "ñ¿¡", "por": "ãõ"}


def detect_language(text: str, among: Collection[str] = ("deu", "eng")) -> str | None:
    """The language of `text`, or None if it is too short or too mixed."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    scores: list[tuple[int, str]] = []
    for code in set(among) & COMMON_WORDS.keys():
        common, letters = set(COMMON_WORDS[code].split()), set(LETTERS.get(code, ""))
        score = sum((word in common) + bool(letters & set(word)) for word in words)
        scores.append((score, code))
    scores.sort(reverse=True)
    if not scores or scores[0][0] < 3:
        return None
    if len(scores) > 1 and scores[0][0] < 2 * scores[1][0]:
        return None
    return scores[0][1]
