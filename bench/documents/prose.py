"""Sentences, titles, sums and program text for made documents; the same seed, the same text."""

import random
from typing import Literal

from .vocabulary import VOCABULARIES

Language = Literal["en", "de"]


class Prose:
    def __init__(self, seed: str, language: Language) -> None:
        self.language = language
        self.random = random.Random(seed)
        self.vocabulary = VOCABULARIES[language]
        self.labels = self.vocabulary.words

    def sentence(self) -> str:
        if self.random.random() < 0.35:
            text = f"{self._clause()}{self.pick('joints')} {self._clause()}"
        else:
            text = self._clause()
        if self.language == "en" and self.random.random() < 0.3:
            text = f"{self.pick('openings')} {text}"
        return text[0].upper() + text[1:] + "."

    def paragraph(self, least: int = 2, most: int = 6) -> str:
        sentences = [self.sentence() for _ in range(self.random.randint(least, most))]
        if self.random.random() < 0.3:
            place = self.random.randrange(len(sentences))
            words = sentences[place].split()
            end = self.random.randint(1, min(3, len(words)))
            sentences[place] = " ".join(["**" + " ".join(words[:end]) + "**", *words[end:]])
        return " ".join(sentences)

    def phrase(self) -> str:
        """A few words that are no sentence: an entry of a list, a note in a table."""
        return self.random.choice(
            (
                f"{self.pick('verbs')} {self.pick('objects')}",
                f"{self.pick('objects')} {self.pick('places')}",
                self.pick("objects"),
            )
        )

    def title(self) -> str:
        if self.language == "de":
            form = self.random.randrange(3)
            if form == 0:
                return self.pick("topics")
            return f"{self.pick('adjectives')} {self.pick('topics')}"
        text = self.random.choice(
            (
                f"{self.pick('adjectives')} {self.pick('topics')}",
                f"{self.pick('topics')} and {self.pick('topics')}",
                f"notes on {self.pick('topics')}",
            )
        )
        return text[0].upper() + text[1:]

    def long_title(self) -> str:
        """More than a line of most pages at the size of a heading."""
        joint = (
            " \u2013 Stand und Ausblick: "
            if self.language == "de"
            else ": a review with regard to "
        )
        year = self.random.randint(1962, 2024)
        return f"{self.title()}{joint}{self.title()}, {self.title()} ({year})"

    def pick(self, what: str) -> str:
        choices: tuple[str, ...] = getattr(self.vocabulary, what)
        return self.random.choice(choices)

    def several(self, what: str, count: int) -> list[str]:
        """Different ones, as long as there are enough."""
        choices: list[str] = list(getattr(self.vocabulary, what))
        self.random.shuffle(choices)
        return (choices * (count // len(choices) + 1))[:count]

    def money(self, cents: int) -> str:
        text = f"{cents / 100:,.2f}"
        if self.language == "en":
            return text
        return text.replace(",", " ").replace(".", ",").replace(" ", ".")

    def date(self) -> str:
        day, year = self.random.randint(1, 28), self.random.randint(1990, 2026)
        month = self.pick("months")
        return f"{day}. {month} {year}" if self.language == "de" else f"{day} {month} {year}"

    def program(self) -> str:
        """Lines of a program that nobody needs."""
        lines = []
        for _ in range(self.random.randint(2, 4)):
            name = self.random.choice(("gauge", "tide", "ledger", "kiln", "orchard", "signal"))
            limit = self.random.randint(2, 99)
            lines += [
                f"def read_{name}(path, limit={limit}):",
                f"    total = {self.random.randint(0, 9)}",
                "    for line in open(path):",
                f"        if len(line) > limit and line[0] != {name[0]!r}:",
                f"            total += int(line.split(';')[{self.random.randint(0, 3)}])",
                f"    return total / {self.random.randint(2, 12)}",
                "",
            ]
        return "\n".join(lines).rstrip()

    def _clause(self) -> str:
        parts = [self.pick("subjects"), self.pick("verbs"), self.pick("objects")]
        if self.random.random() < 0.75:
            parts.append(self.pick("places"))
        return " ".join(parts)
