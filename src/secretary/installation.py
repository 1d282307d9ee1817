"""What an operator may see of an installation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Installation:
    """`engines` looks for them, which may take a while; it tells `subject`, `verdict`, `fact` and
    `remedy` of each. Neither holds a secret."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    engines: Callable[[], list[dict[str, Any]]] = list
