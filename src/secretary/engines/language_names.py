"""What languages are called: by two letters, by three, in English, in German, in themselves."""

import re

#: ISO 639-1, its English name, and whatever else people and engines call it.
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
    """ISO 639-1: `de` for de, de-DE, de_AT, deu, ger, German, deutsch; None for what is unknown."""
    lower = name.strip().lower()
    return CODES.get(lower) or CODES.get(re.split(r"[-_ ,;(]", lower)[0])


def english_name(name: str) -> str:
    """`German` for de, deu, deutsch; what is unknown stays as it is."""
    return ENGLISH.get(language_code(name) or "", name.strip())


def is_same_language(one: str | None, other: str | None) -> bool:
    """False also where one of them is unknown: nobody can tell then."""
    if not one or not other:
        return False
    first, second = (language_code(each) or each.strip().lower() for each in (one, other))
    return first == second and first not in UNTOLD


#: What stands for no language at all.
UNTOLD = frozenset({"", "auto", "und", "mul", "zxx", "unknown"})
