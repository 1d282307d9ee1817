"""Raised and lowered characters: `m²`, `H₂O`."""

_PLAIN = "0123456789+-=()n"
_RAISED = dict(zip(_PLAIN, "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ", strict=True))
_LOWERED = dict(zip(_PLAIN, "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙ", strict=True))


def raised(text: str) -> str:
    return _written(text, _RAISED)


def lowered(text: str) -> str:
    return _written(text, _LOWERED)


def _written(text: str, signs: dict[str, str]) -> str:
    """As it is, where not all of it can be written so."""
    return "".join(signs[c] for c in text) if all(c in signs for c in text) else text
