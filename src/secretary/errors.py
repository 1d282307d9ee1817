"""The errors that handlers raise and callers catch; defined in `secretary.core.errors`."""
