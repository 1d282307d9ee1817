"""Python runs this first in every process that has this directory on its path."""

from tests.chaos import clock

clock.follow()
