"""Confines a process to the files it needs, without network and without power over other processes.

The Linux kernel enforces it, also for everything the process starts: Landlock for files, TCP
ports, signals and abstract sockets, a seccomp filter for system calls. Neither needs privileges,
and neither can be lifted again. What the kernel lacks is left out; `missing_features` tells.

Also a script, run by its path: `fence.py JSON COMMAND …`. Imports nothing from the package.
"""

import ctypes
import json
import os
import platform
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What a process may do. Paths that do not exist are ignored."""

    #: Files and directories that can be read; None for all.
    reads: tuple[str, ...] | None = ()
    #: Those of the system, which can be executed as well: see `system_paths`.
    system: tuple[str, ...] = ()
    #: Directories whose content can be read and changed.
    writes: tuple[str, ...] = ()
    #: Whether it can use the network: not at all, freely, or one local TCP port (since Linux 6.7).
    network: bool | int = False
    #: Whether it can create sockets in the directories for temporary files, and remove files there.
    sockets: bool = False
    #: Processes that it cannot signal even before Linux 6.12, which confines all signals.
    protected: tuple[int, ...] = ()


def enter(fence: Fence, prepared: int | None = None) -> None:
    """Confine this process, which must have a single thread. Raises OSError if the kernel offers a
    feature and refuses it. With a `prepared` ruleset, which must be for the same network, only the
    files of the fence are added to it."""
    if sys.platform != "linux":
        return
    _check(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _drop_capabilities()
    if prepared is not None:
        _allow_files(prepared, fence, _handled_rights(fence, landlock_version()))
    ruleset = prepare(fence) if prepared is None else prepared
    if ruleset is not None:
        _check(_libc().syscall(_RESTRICT_SELF, ruleset, 0))
        os.close(ruleset)
    if has_seccomp():
        _filter(fence)


def missing_features() -> list[str]:
    """What this kernel cannot enforce, from the worst to the least."""
    version = landlock_version()
    features = {
        "files (Landlock, since Linux 5.13)": version >= 1,
        "network and system calls (seccomp on x86-64 and ARM64)": has_seccomp(),
        "truncating files (Landlock 3, since Linux 6.2)": version >= 3,
        "TCP ports of yt-dlp (Landlock 4, since Linux 6.7)": version >= 4,
        "signals to other processes (Landlock 6, since Linux 6.12)": version >= 6,
    }
    return [name for name, is_there in features.items() if not is_there]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the sandbox cannot be closed: {os.strerror(number)}")
    return result


_CAPABILITY_VERSION = 0x20080522
#: As root: reading and writing files of other accounts, as far as the rest of the fence allows it.
_KEPT_CAPABILITIES = 1 << 1 | 1 << 2


def _drop_capabilities() -> None:
    """Root could read the environment and the memory maps of other processes, among others."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    sets = ctypes.create_string_buffer(24)
    _check(_libc().capget(header, sets))
    # Two words each of the effective, permitted and inheritable capabilities.
    permitted = struct.unpack("=6I", sets.raw)[1] & _KEPT_CAPABILITIES
    _check(_libc().capset(header, struct.pack("=6I", permitted, permitted, 0, 0, 0, 0)))


# Landlock ---------------------------------------------------------------------------------------

#: System call numbers, the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_QUERY_VERSION = 1
_PR_SET_NO_NEW_PRIVS = 38
_PATH_BENEATH, _NET_PORT = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE = 1 << 5
_REMOVE = 1 << 4 | _REMOVE_FILE
_MAKE_DIR, _MAKE_FILE, _MAKE_SOCKET = 1 << 7, 1 << 8, 1 << 9
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
#: Without symbolic links, which could lead the worker elsewhere, devices, pipes and sockets.
_CHANGE = _WRITE_FILE | _REMOVE | _MAKE_DIR | _MAKE_FILE | _REFER | _TRUNCATE
#: The rights that apply to a file, not a directory.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
#: LibreOffice exits if it cannot create a socket here, and remove it when it starts again.
_SOCKET_DIRECTORIES = ("/tmp", "/var/tmp")  # nosec B108  # nothing else is created there
#: Devices that any program may use.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@cache
def landlock_version() -> int:
    """0 without Landlock."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, 0, _QUERY_VERSION)))


def warm_up(fence: Fence) -> None:
    """Open the paths of the system and build the filter, for all forks of this process."""
    ruleset = prepare(fence)
    if ruleset is not None:
        os.close(ruleset)
    if has_seccomp():
        _program(fence.network, ())


def prepare(fence: Fence) -> int | None:
    """A ruleset with the rules of this fence for `enter`, so that a process can do most of the work
    before it knows which files it gets. Without Landlock there is none."""
    version = landlock_version()
    if version < 1:
        return None
    handled = _handled_rights(fence, version)
    ports = _BIND_TCP | _CONNECT_TCP if version >= 4 and fence.network is not True else 0
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if version >= 6 else 0
    attributes = struct.pack("=QQQ", handled, ports, scopes)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _check(_libc().syscall(_CREATE_RULESET, attributes[:size], size, 0))
    for path in fence.system:
        _add_rule(ruleset, _descriptor(path), _READ & handled)
    for path in _DEVICES:
        _add_rule(ruleset, _descriptor(path), (_READ_FILE | _WRITE_FILE | _TRUNCATE) & handled)
    if ports and fence.network is not False:
        rule = struct.pack("=QQ", _CONNECT_TCP, fence.network)
        _check(_libc().syscall(_ADD_RULE, ruleset, _NET_PORT, rule, 0))
    _allow_files(ruleset, fence, handled)
    return ruleset


def _handled_rights(fence: Fence, version: int) -> int:
    handled = (1 << 13) - 1
    handled |= _REFER if version >= 2 else 0
    handled |= _TRUNCATE if version >= 3 else 0
    handled |= _IOCTL_DEVICE if version >= 5 else 0
    return handled if fence.reads is not None else handled & ~_READ


def _allow_files(ruleset: int, fence: Fence, handled: int) -> None:
    for path in fence.reads or ():
        _allow(ruleset, path, (_READ_FILE | _READ_DIR) & handled)
    for path in fence.writes:
        _allow(ruleset, path, (_READ_FILE | _READ_DIR | _CHANGE) & handled)
    for path in _SOCKET_DIRECTORIES if fence.sockets else ():
        _allow(ruleset, path, (_MAKE_SOCKET | _REMOVE_FILE) & handled)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it does not exist, or could not be read anyway
    try:
        _add_rule(ruleset, descriptor, rights)
    finally:
        os.close(descriptor)


@cache
def _descriptor(path: str) -> int:
    """Stays open: a fork server opens the paths that all its forks need once."""
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _add_rule(ruleset: int, descriptor: int, rights: int) -> None:
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= _OF_FILES
    rule = struct.pack("=Qi", rights, descriptor)
    _check(_libc().syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))


#: What programs and libraries read. Not all of /etc and /var: an operator's secrets may be there.
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
    "/opt/libreoffice*", "/etc/ld.so.*", "/etc/fonts", "/etc/libreoffice", "/etc/localtime",
    "/etc/timezone", "/etc/alternatives", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group",
    "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/gai.conf", "/etc/ssl", "/etc/pki",
    "/etc/ca-certificates*", "/etc/mime.types", "/etc/papersize", "/etc/magic", "/etc/locale.*",
    "/etc/java*", "/var/cache/fontconfig", "/var/lib/libreoffice",
    "/var/spool/libreoffice",
    "/run/systemd/resolve", "/proc", "/sys/devices/system", "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
)  # fmt: skip


def system_paths(private: Iterable[str]) -> tuple[str, ...]:
    """What Python, this package and other programs consist of, without the private paths."""
    import glob  # not needed by the script

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    roots = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, package}
    roots |= {os.path.dirname(os.path.realpath(sys.executable))}
    # Installed packages, but not the working directory or whatever else is on the path.
    roots |= {entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
    for pattern in _SYSTEM:
        roots.update(glob.glob(pattern))
    return without_private(roots, private)


def without_private(roots: Iterable[str], private: Iterable[str]) -> tuple[str, ...]:
    """The roots; of those that contain a private path, everything else in them."""
    excluded = [os.path.realpath(path) for path in private]
    resolved = {os.path.realpath(root) for root in roots} - {"/"}
    outermost = (
        root for root in resolved if not any(_contains(o, root) for o in resolved - {root})
    )
    return tuple(sorted(path for root in outermost for path in _without(root, excluded)))


def _without(path: str, excluded: Sequence[str]) -> Iterator[str]:
    """The path, or if it contains an excluded one, everything else in it."""
    if any(_contains(each, path) for each in excluded):
        return
    if not any(_contains(path, each) for each in excluded):
        yield path
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_symlink():
                yield from _without(entry.path, excluded)


def _contains(directory: str, path: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


# seccomp ----------------------------------------------------------------------------------------

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
#: Offsets in what the filter sees: the number of the call, the architecture, the arguments.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK, _SOCK_STREAM = 1, 2, 10, 16, 1
#: The flags of `clone` that create namespaces.
_NAMESPACES = 0x7E020080

#: Calls by name, with their numbers on x86-64 and ARM64; 0 where there is none.
_FORBIDDEN = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "move_pages": (279, 239), "migrate_pages": (256, 238),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    # parts of the kernel with many holes in the past
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "fanotify_init": (300, 262), "modify_ldt": (154, 0), "lookup_dcookie": (212, 18),
    # the machine
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "iopl": (172, 0), "ioperm": (173, 0), "vhangup": (153, 58),
    # files that Landlock does not protect from these
    "open_by_handle_at": (304, 265), "mknod": (133, 0), "mknodat": (259, 33), "chmod": (90, 0),
    "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, 0), "lchown": (94, 0),
    "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "removexattrat": (466, 466),
}  # fmt: skip
_CHECKED = {
    "socket": (41, 198), "connect": (42, 203), "clone": (56, 220), "clone3": (435, 435),
    "prlimit64": (302, 261), "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
}  # fmt: skip
#: By machine: the column above, and the architecture as the filter sees it.
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


@cache
def has_seccomp() -> bool:
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    return os.path.exists("/proc/sys/kernel/seccomp/actions_avail")


def _filter(fence: Fence) -> None:
    program = _program(fence.network, fence.protected if landlock_version() < 6 else ())
    buffer = ctypes.create_string_buffer(program)
    # struct sock_fprog: the number of instructions, padding, and their address
    header = struct.pack("@HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    _check(_libc().prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0))


@cache
def _program(network: bool | int, protected: tuple[int, ...]) -> bytes:
    """The filter as a BPF program. Each check returns, or goes on with the next one."""
    column, architecture = _MACHINES[platform.machine()]
    code: list[tuple[int, int, int, int]] = []

    def load(offset: int) -> None:
        code.append((_LOAD, 0, 0, offset))

    def refuse(number: int = _EPERM) -> None:
        code.append((_RETURN, 0, 0, _ERROR | number))

    def check(name: str, body: Sequence[tuple[int, int, int, int]]) -> None:
        """Run `body`, which returns for every argument, for this call."""
        code.append((_EQUAL, 0, len(body), _CHECKED[name][column]))
        code.extend(body)

    deny, allow = (_RETURN, 0, 0, _ERROR | _EPERM), (_RETURN, 0, 0, _ALLOW)
    load(_ARCHITECTURE)
    code.append((_EQUAL, 1, 0, architecture))
    refuse()
    load(_NUMBER)
    code.append((_AT_LEAST, 0, 1, _X32))
    refuse()
    for numbers in _FORBIDDEN.values():
        if numbers[column]:
            code.append((_EQUAL, 0, 1, numbers[column]))
            refuse()
    check("clone3", [(_RETURN, 0, 0, _ERROR | _ENOSYS)])  # its flags are out of reach: use clone
    check("clone", [_argument(0), (_ANY_BIT, 0, 1, _NAMESPACES), deny, allow])
    check("prlimit64", [_argument(0), (_EQUAL, 1, 0, 0), deny, allow])
    check("socket", _allowed_sockets(network, deny, allow))
    if network is False:
        check("connect", [deny])
    for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        pids = [pid & 0xFFFFFFFF for own in protected for pid in (own, -own)]
        if pids:
            body = [_argument(0), (_EQUAL, 0, 1, 0xFFFFFFFF), deny]
            for pid in pids:
                body += [(_EQUAL, 0, 1, pid), deny]
            check(name, [*body, allow])
    code.append(allow)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _argument(index: int) -> tuple[int, int, int, int]:
    """Load the lower half of an argument; all that are checked are 32 bits wide."""
    return _LOAD, 0, 0, _ARGUMENTS + 8 * index


def _allowed_sockets(
    network: bool | int, deny: tuple[int, int, int, int], allow: tuple[int, int, int, int]
) -> list[tuple[int, int, int, int]]:
    """Local stream sockets, which are of no use without `connect`; with network also the others."""
    is_stream = [_argument(1), (_AND, 0, 0, 0xF), (_EQUAL, 0, 1, _SOCK_STREAM), allow, deny]
    if network is True:
        families = [_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK]
        checks = [step for each in families for step in ((_EQUAL, 0, 1, each), allow)]
        return [_argument(0), *checks, deny]
    families = [_AF_UNIX] if network is False else [_AF_INET, _AF_INET6]
    checks = [step for each in families for step in ((_EQUAL, 0, len(is_stream), each), *is_stream)]
    return [_argument(0), *checks, deny]


if __name__ == "__main__":
    _options = json.loads(sys.argv[1])
    enter(Fence(reads=None, writes=tuple(_options["writes"]), network=_options["port"]))
    os.execvp(sys.argv[2], sys.argv[2:])  # nosec B606  # without a shell, as it should be
