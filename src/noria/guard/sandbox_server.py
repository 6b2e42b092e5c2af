"""What runs inside a sandbox and starts its commands: the first process in it, ended by the end of a socket.

Run as a program of its own (`python -I -S -c SOURCE CONTROL PROCESSES MEMORY SETUP PROXY`), never imported by noria: it
has the standard library and nothing else, and none of noria's memory, environment or descriptors. Owns: limits,
Landlock, the start and the exit status of each command. Must not know: what a command is, or what is allowed.

The protocol: on the control socket a request is a header, then its text; the first descriptor that comes with it is a
socket for the answers to this one: an error number and a pidfd, and later the exit status. When the control socket
ends, whoever asked is gone: everything is ended.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import sys

HEADER = struct.Struct("=IIII")  # bytes of text, arguments, variables, passed descriptors
WORD = struct.Struct("=i")
FDS = 64
PORT = 38_128  # where the proxy is, inside
PATIENCE = 5.0  # seconds for which a word from outside is waited for
HARD = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
SET_DUMPABLE, SET_SUBREAPER, NO_NEW_PRIVS, SET_SECCOMP, DROP_CAPABILITY = 4, 36, 38, 22, 24
KEPT = 0b1011  # of root's capabilities: those over the files of others (CHOWN, DAC_OVERRIDE, FOWNER)


def main() -> None:
    """Serve until the other end is gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    libc = ctypes.CDLL(None, use_errno=True)
    alone = os.getpid() != 1
    others = sum(name.isdigit() for name in os.listdir("/proc")) if alone else 0  # they count too, where all are seen
    limit(int(sys.argv[2]) + others, int(sys.argv[3]))
    if sys.argv[5]:
        forward(libc, control, sys.argv[5])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # with no handler the first process of a name space gets no signals
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if int(sys.argv[4]) >= 0:
        restrict(libc, int(sys.argv[4]))
    libc.prctl(SET_DUMPABLE, 0, 0, 0, 0)  # what it serves may not look into it
    control.sendmsg([b"r"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.pidfd_open(os.getpid())]))])
    serve(control, waker)
    if alone:
        end_all()
    os._exit(0)


def limit(processes: int, memory: int) -> None:
    """The limits that every command inherits; 0 is none. What runs out of memory here goes before anything outside."""
    for what, most in ((resource.RLIMIT_NPROC, processes), (resource.RLIMIT_DATA, memory)):
        hard = resource.getrlimit(what)[1]
        if most and (hard == resource.RLIM_INFINITY or most < hard):
            resource.setrlimit(what, (most, most))
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            score = int(file.read())
            file.seek(0)
            file.write(str(max(score, 500)))
    except (OSError, ValueError):
        pass  # an older one, or no /proc


def restrict(libc: ctypes.CDLL, setup: int) -> None:
    """Shut this process and all that it starts in: Landlock, a filter of system calls. Ends it where it fails."""
    import json

    with os.fdopen(setup, "rb") as file:
        told = json.load(file)
    libc.prctl(SET_SUBREAPER, 1, 0, 0, 0)
    attributes = struct.pack("=QQQ", told["files"], told["net"], told["scoped"])[: told["size"]]
    rules = libc.syscall(444, attributes, len(attributes), 0)
    if rules < 0 or libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0):
        fail("landlock_create_ruleset")
    for access, path in told["rules"]:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # it is gone, or may not be looked at: nothing is allowed there
        libc.syscall(445, rules, 1, struct.pack("=Qi", access, fd), 0)  # where it fails nothing is allowed there
        os.close(fd)
    for capability in range(64):
        if not KEPT >> capability & 1:
            libc.prctl(DROP_CAPABILITY, capability, 0, 0, 0)  # fails where there is none, and without the right to
    header, sets = struct.pack("=Ii", 0x20080522, 0), bytearray(24)
    libc.capget(header, (ctypes.c_char * 24).from_buffer(sets))
    low = [number & KEPT for number in struct.unpack("=6I", sets)[:3]]
    if libc.capset(header, struct.pack("=6I", low[0], low[1], 0, 0, 0, 0)):
        fail("capset")
    if libc.syscall(446, rules, 0):
        fail("landlock_restrict_self")
    os.close(rules)
    code = bytes.fromhex(told["filter"])
    if code:
        kept = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("@HP", len(code) // 8, ctypes.addressof(kept))
        if libc.prctl(SET_SECCOMP, 2, program, 0, 0):
            fail("seccomp")


def forward(libc: ctypes.CDLL, control: socket.socket, path: str) -> None:
    """Have a process of its own bring what comes to PORT to the proxy's socket, which is outside."""
    listener = socket.create_server(("127.0.0.1", PORT), backlog=128)
    if os.fork():
        listener.close()
        return
    import threading

    control.close()
    libc.prctl(SET_DUMPABLE, 0, 0, 0, 0)
    while True:
        here, _ = listener.accept()
        there = socket.socket(socket.AF_UNIX)
        try:
            there.connect(path)
        except OSError:
            here.close()
            continue
        for source, sink in ((here, there), (there, here)):
            threading.Thread(target=copy, args=(source, sink), daemon=True).start()


def copy(source: socket.socket, sink: socket.socket) -> None:
    """Everything from one to the other, until its end."""
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is shut


def fail(what: str) -> None:
    """End with a word on why."""
    sys.stderr.write(f"{what}: {os.strerror(ctypes.get_errno())}\n")
    sys.stderr.flush()
    os._exit(70)


def serve(control: socket.socket, waker: int) -> None:
    """Start what is asked for, and tell how it ended, until nobody is there any more."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(waker, select.POLLIN)
    running: dict[int, socket.socket] = {}
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if waker in ready:
            try:
                os.read(waker, 4096)
            except BlockingIOError:
                pass
            reap(running)
        if control.fileno() in ready and not answer(control, running):
            return


def reap(running: dict[int, socket.socket]) -> None:
    """Take the ends of all that has ended, also of what was left behind."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        report = running.pop(pid, None)
        if report is not None:
            tell(report, os.waitstatus_to_exitcode(status))
            report.close()


def tell(report: socket.socket, number: int, fds: tuple[int, ...] = ()) -> None:
    """Say a number to whoever asked for a command."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        report.sendmsg([WORD.pack(number)], rights, socket.MSG_NOSIGNAL)
    except OSError:
        pass  # nobody wants to know any more


def hear(report: socket.socket) -> None:
    """Take the word that the number is known; unread it would have the exit status thrown away at the end."""
    try:
        report.recv(WORD.size, socket.MSG_DONTWAIT)
    except OSError:
        pass  # nobody is there any more


def answer(control: socket.socket, running: dict[int, socket.socket]) -> bool:
    """Take one request and start what it asks for; False at the end."""
    try:
        data, rights, _, _ = control.recvmsg(1 << 16, socket.CMSG_SPACE(FDS * 4), HARD)
    except ConnectionError:
        return False
    fds = array.array("i")
    for level, kind, some in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(some[: len(some) - len(some) % 4])
    want = HEADER.size
    while data and len(data) < want + (HEADER.unpack_from(data)[0] if len(data) >= HEADER.size else 0):
        more = control.recv(1 << 20)
        if not more:
            return False
        data += more
    if not data or not fds:
        return False
    report = socket.socket(fileno=fds[0])
    try:
        pid = start(data, fds[1:])
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        tell(report, error.errno or 1)
        report.close()
    else:
        running[pid] = report
        tell(report, 0, (pidfd,))
        os.close(pidfd)
        if select.select([report], [], [], PATIENCE)[0]:  # until its number is known outside, it keeps it
            hear(report)
    return True


def start(data: bytes, fds: array.array[int]) -> int:
    """Start a program in a session of its own, with exactly the given descriptors; its process number here."""
    _, arguments, variables, passed = HEADER.unpack_from(data)
    numbers = (0, 1, 2, *struct.unpack_from(f"={passed}i", data, HEADER.size))
    words = data[HEADER.size + 4 * passed :].split(b"\0")
    program, folder = words[0], words[1]
    argv = words[2 : 2 + arguments]
    env = dict(entry.split(b"=", 1) for entry in words[2 + arguments : 2 + arguments + variables])
    moved = list[int]()
    try:
        for fd in fds:  # out of the way of the numbers that they are to get
            moved.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(100, *numbers) + 1))
        os.chdir(folder)
        return os.posix_spawn(
            program, argv, env,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in zip(moved, numbers, strict=True)],
            setsid=True, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )  # fmt: skip
    finally:
        for fd in (*fds, *moved):
            os.close(fd)


def end_all() -> None:
    """Without a name space of its own: kill what was started, until nothing is left. All of it is its child by now or
    becomes that when its parent is gone."""
    me = os.getpid()
    for _ in range(1000):
        try:
            with open(f"/proc/{me}/task/{me}/children") as file:
                children = [int(pid) for pid in file.read().split()]
        except OSError:
            children = []
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, 0 if children else os.WNOHANG)[0]:
                children = []
        except ChildProcessError:
            return


main()
