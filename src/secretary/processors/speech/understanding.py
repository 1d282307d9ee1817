"""Whether an engine understands the language that is spoken."""

from collections.abc import Sequence

from ...engines.speech import Heard

#: Confidence. What tiny.en makes of English has 0.68 and more by eleven voices, clean, quiet, over
#: the telephone and in noise 10 dB below the voice; what it makes of German, French, Spanish and
#: Italian 0.55 and less. English in such noise that half of its words are wrong is at the limit.
UNDERSTOOD = 0.62
#: Of other languages often no word is put down at all: seconds without for each with words.
UNCLEAR = 2.0


def is_understood(heard: Sequence[Heard]) -> bool:
    """False where there is speech of which the engine makes little sense: it is in a language
    that the engine does not know, or not to be understood at all. Ask after about a minute of
    speech: a single word tells little. True where nothing is said."""
    unclear = sum(one.unclear for one in heard)
    clear = sum(said.end - said.start for one in heard for said in one.said)
    if unclear > UNCLEAR * clear:
        return False
    return not clear or mean_confidence(heard) >= UNDERSTOOD


def mean_confidence(heard: Sequence[Heard]) -> float:
    """Over all letters, for where few words are said the engine is less sure."""
    letters = [sum(len(said.text) for said in one.said) for one in heard]
    weighted = sum(one.confidence * count for one, count in zip(heard, letters, strict=True))
    return weighted / sum(letters) if any(letters) else 0.0
