"""The job types this service ships. A new one is one module here and one name below."""

from .selftest import selftest

BUILTIN = (selftest,)
