"""Runs a program that can connect to one TCP port only and write to one directory only.

A script, run by its path: `landlock.py PORT DIRECTORY COMMAND …`. The kernel enforces the limits
(Landlock; files since Linux 5.13, connections since 6.7), also for child processes. On a kernel
without Landlock the program runs without them. Imports nothing from the package.
"""

import ctypes
import os
import struct
import sys

#: Syscall numbers, the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_QUERY_VERSION = 1
_PR_SET_NO_NEW_PRIVS = 38
_PATH_BENEATH, _NET_PORT = 1, 2

_CONNECT_TCP = 1 << 1
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
#: Removing and creating directory entries of every kind.
_CHANGE_ENTRIES = sum(1 << bit for bit in range(4, 13))


def main(port: int, directory: str, command: list[str]) -> None:
    if sys.platform == "linux":
        _restrict(ctypes.CDLL(None, use_errno=True), port, directory)
    os.execvp(command[0], command)  # nosec B606  # without a shell, as it should be


def _restrict(libc: ctypes.CDLL, port: int, directory: str) -> None:
    version = libc.syscall(_CREATE_RULESET, None, 0, _QUERY_VERSION)
    if version < 1:
        return
    writing = _WRITE_FILE | _CHANGE_ENTRIES
    writing |= _REFER if version >= 2 else 0
    writing |= _TRUNCATE if version >= 3 else 0
    attributes = struct.pack("=QQ", writing, _CONNECT_TCP)
    if version < 4:
        attributes = attributes[:8]
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return
    _allow_writing(libc, ruleset, directory, writing)
    _allow_writing(libc, ruleset, "/dev/null", writing & (_WRITE_FILE | _TRUNCATE))
    if version >= 4:
        libc.syscall(_ADD_RULE, ruleset, _NET_PORT, struct.pack("=QQ", _CONNECT_TCP, port), 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow_writing(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    os.close(descriptor)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
