"""Codes of languages: recordings name theirs by three letters, in two dialects."""

#: ISO 639-1 and the codes of ISO 639-2 that mean the same.
_CODES = """
af:afr am:amh ar:ara as:asm az:aze ba:bak be:bel bg:bul bn:ben bo:bod,tib br:bre bs:bos ca:cat
cs:ces,cze cy:cym,wel da:dan de:deu,ger el:ell,gre en:eng eo:epo es:spa et:est eu:eus,baq
fa:fas,per fi:fin fo:fao fr:fra,fre fy:fry ga:gle gd:gla gl:glg gu:guj ha:hau he:heb hi:hin
hr:hrv,scr ht:hat hu:hun hy:hye,arm id:ind is:isl,ice it:ita ja:jpn jv:jav ka:kat,geo kk:kaz
km:khm kn:kan ko:kor ku:kur ky:kir la:lat lb:ltz ln:lin lo:lao lt:lit lv:lav mg:mlg mi:mri,mao
mk:mkd,mac ml:mal mn:mon mr:mar ms:msa,may mt:mlt my:mya,bur ne:nep nl:nld,dut nn:nno
no:nor,nob,nb oc:oci pa:pan pl:pol ps:pus pt:por rm:roh ro:ron,rum ru:rus sa:san sd:snd si:sin
sk:slk,slo sl:slv sn:sna so:som sq:sqi,alb sr:srp,scc su:sun sv:swe sw:swa ta:tam te:tel tg:tgk
th:tha tk:tuk tl:tgl,fil tr:tur tt:tat uk:ukr ur:urd uz:uzb vi:vie wo:wol xh:xho yi:yid yo:yor
zh:zho,chi,cmn zu:zul
"""
_TWO_LETTERS = {
    code: pair[:2] for pair in _CODES.split() for code in (pair[:2], *pair[3:].split(","))
}


def two_letters(code: str) -> str | None:
    """`ger`, `deu`, `de` or `de-CH` -> `de`; None for a language that has no such code."""
    return _TWO_LETTERS.get(code.strip().lower().replace("_", "-").partition("-")[0])
