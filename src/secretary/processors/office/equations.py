"""Equations of Office (OMML) as LaTeX."""

from collections.abc import Callable

from .xml_parts import Element

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_VALUE = f"{M}val"
_NEXT = r" \\ "
_HAT = r"\hat"

_LARGE = {
    "∑": r"\sum", "∏": r"\prod", "∐": r"\coprod", "∫": r"\int", "∬": r"\iint", "∭": r"\iiint",
    "∮": r"\oint", "\u22c3": r"\bigcup", "⋂": r"\bigcap", "\u22c1": r"\bigvee", "⋀": r"\bigwedge",
}  # fmt: skip
_ACCENTS = {
    "\u0302": r"\hat", "\u0303": r"\tilde", "\u0304": r"\bar", "\u0305": r"\bar",
    "\u0307": r"\dot", "\u0308": r"\ddot", "\u030c": r"\check", "\u20d7": r"\vec",
}  # fmt: skip
_FUNCTIONS = {
    "arccos", "arcsin", "arctan", "cos", "cosh", "cot", "det", "exp", "gcd", "inf", "lim", "ln",
    "log", "max", "min", "sin", "sinh", "sup", "tan", "tanh",
}  # fmt: skip
_ESCAPED = str.maketrans(
    {"{": r"\{", "}": r"\}", "$": r"\$", "#": r"\#", "&": r"\&", "%": r"\%", "_": r"\_"}
)


def latex(element: Element) -> str:
    """All that is inside an element, in one line."""
    parts: list[str] = []
    for child in element:
        written = _WRITERS.get(child.tag)
        if written is not None:
            parts.append(written(child))
        elif child.tag not in _IGNORED:
            parts.append(latex(child))
    return "".join(parts)


def _part(element: Element, name: str) -> str:
    child = element.find(f"{M}{name}")
    return latex(child) if child is not None else ""


def _property(element: Element, path: str, default: str) -> str:
    child = element.find("/".join(f"{M}{name}" for name in path.split("/")))
    return default if child is None else child.get(_VALUE, "")


def _text(element: Element) -> str:
    text = "".join(each.text or "" for each in element.iterchildren(f"{M}t"))
    if text.strip() in _FUNCTIONS:
        return f"\\{text.strip()} "
    return text.translate(_ESCAPED)


def _fraction(element: Element) -> str:
    return f"\\frac{{{_part(element, 'num')}}}{{{_part(element, 'den')}}}"


def _radical(element: Element) -> str:
    degree = _part(element, "deg")
    return f"\\sqrt{f'[{degree}]' if degree else ''}{{{_part(element, 'e')}}}"


def _superscript(element: Element) -> str:
    return f"{_base(element)}^{{{_part(element, 'sup')}}}"


def _subscript(element: Element) -> str:
    return f"{_base(element)}_{{{_part(element, 'sub')}}}"


def _both(element: Element) -> str:
    return f"{_base(element)}_{{{_part(element, 'sub')}}}^{{{_part(element, 'sup')}}}"


def _before(element: Element) -> str:
    scripts = f"_{{{_part(element, 'sub')}}}^{{{_part(element, 'sup')}}}"
    return f"{{}}{scripts}{_part(element, 'e')}"


def _base(element: Element) -> str:
    base = _part(element, "e")
    return base if len(base) == 1 else f"{{{base}}}"


def _large(element: Element) -> str:
    sign = _property(element, "naryPr/chr", "∫")
    below, above = _part(element, "sub"), _part(element, "sup")
    text = _LARGE.get(sign, sign)
    text += f"_{{{below}}}" if below else ""
    text += f"^{{{above}}}" if above else ""
    return f"{text} {_part(element, 'e')}"


def _delimited(element: Element) -> str:
    begin = _property(element, "dPr/begChr", "(") or "."
    end = _property(element, "dPr/endChr", ")") or "."
    between = _property(element, "dPr/sepChr", "|")
    inner = between.join(latex(each) for each in element.iterchildren(f"{M}e"))
    if (begin, end) in (("(", ")"), ("[", "]")) and "\\frac" not in inner:
        return f"{begin}{inner}{end}"
    braces = {"{": r"\{", "}": r"\}"}
    return f"\\left{braces.get(begin, begin)}{inner}\\right{braces.get(end, end)}"


def _function(element: Element) -> str:
    name = _part(element, "fName").strip()
    return f"{name} {{{_part(element, 'e')}}}"


def _accent(element: Element) -> str:
    sign = _property(element, "accPr/chr", "\u0302")
    return f"{_ACCENTS.get(sign, _HAT)}{{{_part(element, 'e')}}}"


def _bar(element: Element) -> str:
    is_above = _property(element, "barPr/pos", "bot") == "top"
    return f"\\{'overline' if is_above else 'underline'}{{{_part(element, 'e')}}}"


def _limit_below(element: Element) -> str:
    return f"{_part(element, 'e').strip()}_{{{_part(element, 'lim')}}}"


def _limit_above(element: Element) -> str:
    return f"{_part(element, 'e').strip()}^{{{_part(element, 'lim')}}}"


def _matrix(element: Element) -> str:
    rows = (
        " & ".join(latex(each) for each in row.iterchildren(f"{M}e"))
        for row in element.iterchildren(f"{M}mr")
    )
    return f"\\begin{{matrix}}{_NEXT.join(rows)}\\end{{matrix}}"


def _lines(element: Element) -> str:
    rows = (latex(each) for each in element.iterchildren(f"{M}e"))
    return f"\\begin{{array}}{{l}}{_NEXT.join(rows)}\\end{{array}}"


_WRITERS: dict[str, Callable[[Element], str]] = {
    f"{M}{name}": writer
    for name, writer in {
        "r": _text, "f": _fraction, "rad": _radical, "sSup": _superscript, "sSub": _subscript,
        "sSubSup": _both, "sPre": _before, "nary": _large, "d": _delimited, "func": _function,
        "acc": _accent, "bar": _bar, "limLow": _limit_below, "limUpp": _limit_above,
        "m": _matrix, "eqArr": _lines,
    }.items()
}  # fmt: skip
_IGNORED = {
    f"{M}{name}"
    for name in (
        "fPr", "radPr", "sSupPr", "sSubPr", "sSubSupPr", "sPrePr", "naryPr", "dPr", "funcPr",
        "accPr", "barPr", "limLowPr", "limUppPr", "mPr", "eqArrPr", "ctrlPr", "oMathParaPr",
    )
}  # fmt: skip
