"""The filter of system calls that commands in a sandbox run under, as the kernel takes it.

Owns: which calls are refused, on the machines whose numbers are known, and the program (classic BPF) that says so. Must
not know: how it is put in force. Elsewhere there is none, and `program` is empty.

What is refused has no use in building or testing and much in getting out: other name spaces and mounts, the kernel's
keys (they are not in any name space), putting words into a terminal (TIOCSTI), io_uring (it makes system calls that no
filter sees), sockets that no network name space holds (vsock).
"""

from __future__ import annotations

import os
import struct

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _EACCES, _ENOSYS, _EAFNOSUPPORT = 1, 13, 38, 97
_LOAD, _EQUAL, _ANY_BIT, _AND, _RETURN, _AT_LEAST = 0x20, 0x15, 0x45, 0x54, 0x06, 0x35
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # where they are in struct seccomp_data

_SPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_INJECT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

# The calls that are refused whole: on x86_64, on aarch64.
_REFUSED = {
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "move_mount": (429, 429),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "setns": (308, 268), "unshare": (272, 97), "open_by_handle_at": (304, 265),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116), "vhangup": (153, 58),
}  # fmt: skip
_ABSENT = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CLONE, _IOCTL, _SOCKET = (56, 220), (16, 29), (41, 198)
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def _step(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, k)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


_LET = _step(_RETURN, _ALLOW)


def _call(number: int, block: bytes) -> bytes:
    """The block for that call, which ends in a verdict on each way."""
    return _step(_EQUAL, number, 0, len(block) // 8) + block


def program(*, sockets: bool = True, machine: str = "") -> bytes:
    """The filter for this machine (or the named one), as an array of `struct sock_filter`; empty where its numbers are
    not known. `sockets`: False refuses every socket that is made with `socket`, for where no name space holds them;
    pairs of them are left."""
    known = _MACHINES.get(machine or os.uname().machine)
    if known is None or struct.pack("=H", 1) != b"\1\0":
        return b""
    which, arch = known
    code = _step(_LOAD, _ARCH) + _step(_EQUAL, arch, 1, 0) + _refuse(_ENOSYS) + _step(_LOAD, _NUMBER)
    if which == 0:  # the numbers of x32 mean other calls
        code += _step(_AT_LEAST, 0x40000000, 0, 1) + _refuse(_ENOSYS)
    for numbers in _REFUSED.values():
        code += _call(numbers[which], _refuse(_EPERM))
    for numbers in _ABSENT.values():  # programs try another way then
        code += _call(numbers[which], _refuse(_ENOSYS))
    code += _call(
        _CLONE[which], _step(_LOAD, _FIRST) + _step(_ANY_BIT, _SPACES, 0, 1) + _refuse(_EPERM) + _LET
    )  # where the flags are the first argument: on both
    injecting = _step(_LOAD, _SECOND)
    for request in _INJECT:
        injecting += _step(_EQUAL, request, 0, 1) + _refuse(_EPERM)
    code += _call(_IOCTL[which], injecting + _LET)
    if sockets:
        making = _step(_LOAD, _FIRST)
        for family in _FAMILIES:
            making += _step(_EQUAL, family, 0, 1) + _LET
        code += _call(_SOCKET[which], making + _refuse(_EAFNOSUPPORT))
    else:
        code += _call(_SOCKET[which], _refuse(_EACCES))
    return code + _LET
