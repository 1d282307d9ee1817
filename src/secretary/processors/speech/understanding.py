"""Whether an engine understands the language that is spoken."""

from collections.abc import Sequence

from ...engines.speech import Heard

#: English by ten voices has 0.62 and more with tiny.en, also in noise as loud as half the voice,
#: over the telephone and whispered; German, French, Spanish and Italian have 0.54 and less.
UNDERSTOOD = 0.58


def is_understood(heard: Sequence[Heard]) -> bool:
    """False where there is speech of which the engine makes little sense: it is in a language
    that the engine does not know, or not to be understood at all. Ask after about a minute: a
    single word tells little. True where nothing is said."""
    letters = [sum(len(said.text) for said in one.said) for one in heard]
    weighted = sum(one.confidence * count for one, count in zip(heard, letters, strict=True))
    return not any(letters) or weighted / sum(letters) >= UNDERSTOOD
