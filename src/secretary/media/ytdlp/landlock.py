"""Starts a program that can connect to one port only and write in one directory only.

A program of its own, run by its path: `fence.py PORT DIRECTORY COMMAND …`. It is the kernel that
keeps to it (Landlock; files since Linux 5.13, connections since 6.7), for all that the program
starts, too. Where the kernel cannot, the program is started without.
"""

import ctypes
import os
import struct
import sys

#: The same numbers on every machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_NO_NEW_PRIVILEGES = 38
_BENEATH_PATH, _NET_PORT = 1, 2

_CONNECT_TCP = 1 << 1
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
#: Removing and making entries of every kind.
_CHANGE_ENTRIES = sum(1 << bit for bit in range(4, 13))
#: Programs throw away output there.
_NOWHERE = "/dev/null"


def main(port: int, directory: str, command: list[str]) -> None:
    if sys.platform == "linux":
        _fence(ctypes.CDLL(None, use_errno=True), port, directory)
    os.execvp(command[0], command)  # nosec B606  # without a shell, as it should be


def _fence(libc: ctypes.CDLL, port: int, directory: str) -> None:
    version = libc.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
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
    _allow_writing(libc, ruleset, _NOWHERE, writing & (_WRITE_FILE | _TRUNCATE))
    if version >= 4:
        libc.syscall(_ADD_RULE, ruleset, _NET_PORT, struct.pack("=QQ", _CONNECT_TCP, port), 0)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow_writing(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    libc.syscall(_ADD_RULE, ruleset, _BENEATH_PATH, struct.pack("=Qi", rights, place), 0)
    os.close(place)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
