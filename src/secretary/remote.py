"""A function by its name, so that only the process that calls it has to load it."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Remote(Generic[T]):
    """`Remote("processors.pdf.pages", "inspect_pdf")` is called and sent like the function."""

    module: str
    name: str

    def __call__(self, *args: Any, **options: Any) -> T:
        result: T = self.resolved()(*args, **options)
        return result

    def resolved(self) -> Any:
        return getattr(import_module(f".{self.module}", __package__), self.name)
