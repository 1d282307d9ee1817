"""Python runs this in every process that has this directory on its path, before anything else."""

from tests.chaos import clock

clock.follow()
