"""Sentences, titles, amounts and program code for generated documents; seeded, so repeatable."""

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

Language = Literal["en", "de"]
WORDS = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))


class Prose:
    def __init__(self, seed: str, language: Language) -> None:
        self.language = language
        self.random = random.Random(seed)
        self.words: dict[str, list[str]] = WORDS[language]
        self.labels: Any = SimpleNamespace(**WORDS[language]["labels"])

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, what: str) -> str:
        return self.random.choice(self.words[what])

    def several(self, what: str, count: int) -> list[str]:
        """Different ones, as long as there are enough."""
        choices = list(self.words[what])
        self.random.shuffle(choices)
        return (choices * (count // len(choices) + 1))[:count]

    def sentence(self) -> str:
        if self.chance(0.35):
            text = f"{self._clause()}{self.pick('joints')} {self._clause()}"
        else:
            text = self._clause()
        if self.language == "en" and self.chance(0.3):
            text = f"{self.pick('openings')} {text}"
        return text[0].upper() + text[1:] + "."

    def paragraph(self, least: int = 2, most: int = 6) -> str:
        sentences = [self.sentence() for _ in range(self.random.randint(least, most))]
        if self.chance(0.3):
            index = self.random.randrange(len(sentences))
            words = sentences[index].split()
            end = self.random.randint(1, min(3, len(words)))
            sentences[index] = " ".join(["**" + " ".join(words[:end]) + "**", *words[end:]])
        return " ".join(sentences)

    def phrase(self) -> str:
        """A few words that are no sentence: a list item, a note in a table."""
        choices = (
            f"{self.pick('verbs')} {self.pick('objects')}",
            f"{self.pick('objects')} {self.pick('places')}",
            self.pick("objects"),
        )
        return self.random.choice(choices)

    def title(self) -> str:
        if self.language == "de":
            short = self.random.randrange(3) == 0
            topic = "" if short else f"{self.pick('adjectives')} "
            return topic + self.pick("topics")
        choices = (
            f"{self.pick('adjectives')} {self.pick('topics')}",
            f"{self.pick('topics')} and {self.pick('topics')}",
            f"notes on {self.pick('topics')}",
        )
        text = self.random.choice(choices)
        return text[0].upper() + text[1:]

    def long_title(self) -> str:
        """Longer than a line of most pages at the size of a heading."""
        german = self.language == "de"
        joint = " \u2013 Stand und Ausblick: " if german else ": a review with regard to "
        year = self.random.randint(1962, 2024)
        return f"{self.title()}{joint}{self.title()}, {self.title()} ({year})"

    def decimal(self, text: str) -> str:
        """An English number in the language's notation."""
        if self.language == "en":
            return text
        return text.replace(",", " ").replace(".", ",").replace(" ", ".")

    def money(self, cents: int) -> str:
        return self.decimal(f"{cents / 100:,.2f}")

    def date(self) -> str:
        day, year = self.random.randint(1, 28), self.random.randint(1990, 2026)
        return f"{day}{'.' if self.language == 'de' else ''} {self.pick('months')} {year}"

    def program(self) -> str:
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
        if self.chance(0.75):
            parts.append(self.pick("places"))
        return " ".join(parts)
