"""The sandbox of a session: one that is started with the first command, serves all of them, and ends with noria.

Owns: which kind there is here, its start and its end, how a command is handed over and its process told of. Must not
know: the tools, which hand over anything with the fields of `Wanted`; what is allowed (sandbox_places.py).

A command costs a message to the server inside (sandbox_server.py) instead of a start of bubblewrap. Its process is
known by the number that it has outside, so that what looks at processes and ends them goes on as without a sandbox.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from noria.guard import sandbox_bwrap, sandbox_landlock, sandbox_limits, sandbox_seccomp
from noria.guard.sandbox_git import is_placeholder
from noria.guard.sandbox_places import Plan

if TYPE_CHECKING:
    from noria.guard.sandbox_proxy import Proxy

Kind: TypeAlias = Literal["bubblewrap", "landlock"]

PATIENCE = 20.0  # seconds for which a start is waited for
PROXY = "http://127.0.0.1:38128"  # as in sandbox_server.py
HEADER = struct.Struct("=IIII")  # as in sandbox_server.py
WORD = struct.Struct("=i")
INSTALL = "install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap)"


class Wanted(Protocol):
    """A process to be created, as the tools say it (tools.process.Start)."""

    @property
    def argv(self) -> Sequence[str]: ...
    @property
    def program(self) -> str: ...
    @property
    def cwd(self) -> str: ...
    @property
    def env(self) -> Mapping[bytes, bytes]: ...
    @property
    def stdin(self) -> int: ...
    @property
    def stdout(self) -> int: ...
    @property
    def stderr(self) -> int: ...
    @property
    def passed(self) -> tuple[int, ...]: ...


class NoSandbox(OSError):
    """There is no sandbox where there has to be one. Its text says why, and what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(1, text)


class Served:
    """A process in the sandbox, to be waited for like one of this process's own (subprocess.Popen).

    `pid`: the number that it has outside. `returncode`: its exit status once it has ended (negative: the signal)."""

    __slots__ = ("_report", "pid", "returncode")

    def __init__(self, pid: int, report: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._report: socket.socket | None = report

    @property
    def ended(self) -> int:
        """A descriptor that can be read once it has ended; of this object's own, -1 after its end was taken."""
        return self._report.fileno() if self._report is not None else -1

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._take(socket.MSG_DONTWAIT)

    def wait(self) -> int:
        """Wait for its end; its exit status."""
        found = self._take(0)
        return -9 if found is None else found

    def _take(self, flags: int) -> int | None:
        if self._report is None:
            return self.returncode
        try:
            data = self._report.recv(WORD.size, flags)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        self.returncode = WORD.unpack(data)[0] if len(data) == WORD.size else -9  # the sandbox ended, and all in it
        self._report.close()
        self._report = None
        return self.returncode


class Sandbox:
    """Starts processes in a sandbox that is made with the first of them. Belongs to one session."""

    def __init__(
        self, plan: Callable[[], Plan], kinds: Sequence[Kind] = ("bubblewrap", "landlock"),
        public: Callable[[str], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        """`plan` is asked once, at the start. `kinds`: what may be used, the best first. `public`: whether an address
        is a public one, for hosts that are listed without a port."""
        self._plan, self._kinds, self._public = plan, tuple(kinds), public
        self._control: socket.socket | None = None
        self._outer: subprocess.Popen[bytes] | None = None
        self._made: list[tuple[int, str, bytes | None]] = []  # what is there only for it, each open and locked
        self._proxy: Proxy | None = None
        self._scratch = ""  # where it has no name space: its folder for what passes
        self._group = sandbox_limits.Group()
        self.kind: Kind | None = None  # once it has started
        self.plan: Plan | None = None
        self.pid = 0  # of its first process, as it is outside

    # -- commands ------------------------------------------------------------------------------------------------

    def spawn(self, wanted: Wanted) -> Served:
        """Start a process in it. Raises OSError where it cannot be, NoSandbox where the sandbox cannot."""
        for again in (True, False):
            if self._control is None:
                self.start()
            try:
                return self._ask(wanted)
            except (ConnectionError, TimeoutError):  # it is gone, with everything in it
                self.close()
                if not again:
                    break
        raise NoSandbox("the sandbox ended while a command was started in it; make the call again")

    def _ask(self, wanted: Wanted) -> Served:
        assert self._control is not None
        env = dict(wanted.env)
        if self._scratch:
            env[b"TMPDIR"] = os.fsencode(self._scratch)
        if self._proxy is not None:
            for name in (b"HTTP_PROXY", b"HTTPS_PROXY", b"http_proxy", b"https_proxy"):
                env[name] = PROXY.encode()
            env[b"NO_PROXY"] = env[b"no_proxy"] = b"localhost,127.0.0.1,::1"
        words = [os.fsencode(wanted.program), os.fsencode(wanted.cwd), *map(os.fsencode, wanted.argv)]
        words += [key + b"=" + value for key, value in env.items()]
        text = struct.pack(f"={len(wanted.passed)}i", *wanted.passed) + b"\0".join(words)
        data = memoryview(HEADER.pack(len(text), len(wanted.argv), len(env), len(wanted.passed)) + text)
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            fds = [its.fileno(), wanted.stdin, wanted.stdout, wanted.stderr, *wanted.passed]
            rights = struct.pack(f"={len(fds)}i", *fds)
            sent = self._control.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            if sent < len(data):
                self._control.sendall(data[sent:])
            its.close()
            mine.settimeout(PATIENCE)
            number, pidfd = _receive(mine)
            mine.settimeout(None)
            if number:
                raise OSError(number, os.strerror(number))
            pid = _outside(pidfd)
            mine.send(b"k")  # from now on its end may be taken
            return Served(pid, mine)
        except BaseException:
            mine.close()
            its.close()
            raise

    @property
    def scratch(self) -> str:
        """Its folder for what passes, where it has no /tmp of its own; else empty."""
        return self._scratch

    @property
    def bounded(self) -> tuple[bool, bool]:
        """Whether the number of its processes is limited, and the memory of all of them together."""
        return self._group.processes or os.geteuid() != 0, self._group.memory

    # -- its beginning and end -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it now, the best kind that can be. Raises NoSandbox where none can."""
        plan = self.plan = self._plan()
        reasons = list[str]()
        for kind in self._kinds:
            try:
                if kind == "bubblewrap":
                    self._bubblewrap(plan)
                else:
                    self._landlock(plan)
            except OSError as error:
                self.close()
                reasons.append(f"{kind}: {error.strerror or error}")
            else:
                self.kind = kind
                return
        raise NoSandbox(f"there is no sandbox here ({'; '.join(reasons) or 'none was looked for'}); {INSTALL}")

    def _bubblewrap(self, plan: Plan) -> None:
        program = sandbox_bwrap.program()
        if not program:
            raise OSError(2, "it is not installed")
        if plan.hosts and not plan.network:
            from noria.guard.sandbox_proxy import Proxy

            self._proxy = Proxy(plan.hosts, self._public)
            plan = msgspec.structs.replace(plan, places=(*plan.places, ("read", self._proxy.folder)))
        for path, content in plan.made:
            self._make(path, content)
        there = tuple(place for place in plan.places if os.path.lexists(place[1]))  # what is gone needs no guard
        plan = msgspec.structs.replace(plan, places=there)
        filter, more = _file(sandbox_seccomp.program()), sandbox_landlock.beside(plan, sandbox_landlock.version())
        setup = _told(more) if more is not None else -1
        passed = [fd for fd in (filter, setup) if fd >= 0]
        try:
            before = [program, *sandbox_bwrap.arguments(plan, filter, root=os.geteuid() == 0)]
            self._serve(before, plan, setup, passed)
        finally:
            for fd in passed:
                os.close(fd)

    def _landlock(self, plan: Plan) -> None:
        import tempfile

        abi = sandbox_landlock.version()
        if not abi:
            raise OSError(38, "the kernel has none")
        self.plan = msgspec.structs.replace(plan, hosts=())  # there are no sockets to reach them by
        self._scratch = tempfile.mkdtemp(prefix="noria-")
        code = sandbox_seccomp.program(sockets=plan.network)
        if not code and not plan.network:
            raise OSError(38, "it cannot keep the network off on this machine")
        rules = sandbox_landlock.Rules(plan, abi, self._scratch, code)
        setup = _told(rules.told())
        try:
            self._serve([], plan, setup, [setup])
        finally:
            os.close(setup)

    def _serve(self, before: list[str], plan: Plan, setup: int, passed: list[int]) -> None:
        """Start the server, and wait until it is ready."""
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        errors = os.memfd_create("noria-sandbox")
        source = Path(__file__).with_name("sandbox_server.py").read_text("utf-8")
        words = [
            _python(),
            "-I",
            "-S",
            "-c",
            source,
            its.fileno(),
            plan.processes,
            plan.memory,
            setup,
            self._proxy.path if self._proxy else "",
        ]
        try:
            self._control = mine
            mine.settimeout(PATIENCE)
            with its:
                self._outer = subprocess.Popen(
                    [*before, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                    pass_fds=[its.fileno(), *passed], cwd="/", env=_bare(os.environ), start_new_session=True,
                )  # fmt: skip
            try:
                _, pidfd = _receive(mine)
            except OSError:
                self._outer.kill()
                self._outer.wait()
                os.lseek(errors, 0, os.SEEK_SET)
                said = os.read(errors, 2_000).decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise OSError(1, said or "it did not start") from None
            self.pid = _outside(pidfd)
            self._group.make(self.pid, plan.processes)  # before it has started anything
        finally:
            os.close(errors)

    def _make(self, path: str, content: bytes | None) -> None:
        """Make a folder, or a file with that content, that is to be kept from being written; gone at the end unless
        another sandbox keeps it too. It is marked by its mode (sticky). Where it cannot be made nobody can make it."""
        with suppress(OSError):
            if content is None:
                os.mkdir(path)
                os.chmod(path, 0o1755)
            else:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                with os.fdopen(fd, "wb") as file:
                    file.write(content)
                    os.fchmod(fd, 0o1644)
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.flock(fd, fcntl.LOCK_SH)
            self._made.append((fd, path, content))

    def close(self) -> None:
        """End it with everything in it. Twice does nothing; a command after it starts another."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._outer is not None:
            try:
                self._outer.wait(5)
            except subprocess.TimeoutExpired:
                self._outer.kill()
                self._outer.wait()
            self._outer = None
        self._group.close()
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None
        while self._made:
            fd, path, content = self._made.pop()
            with suppress(OSError):  # others keep it, or there is something in it
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_placeholder(path, content):
                    (os.rmdir if content is None else os.unlink)(path)
            os.close(fd)
        if self._scratch:
            import shutil

            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = ""
        self.kind, self.pid = None, 0


def _receive(end: socket.socket) -> tuple[int, int]:
    """A number and a descriptor (-1: none) from the server. Raises ConnectionError where it has ended."""
    data, rights, _, _ = end.recvmsg(WORD.size, socket.CMSG_SPACE(4 * 4), getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    fds = list[int]()
    for level, kind, some in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += [number for (number,) in WORD.iter_unpack(some[: len(some) - len(some) % 4])]
    for fd in fds[1:]:
        os.close(fd)
    if not data:
        raise ConnectionResetError(104, "the sandbox has ended")
    return (WORD.unpack(data)[0] if len(data) == WORD.size else 0), (fds[0] if fds else -1)


def _outside(pidfd: int) -> int:
    """The number that a process of the sandbox has here; its descriptor is closed. Raises OSError."""
    try:
        with open(f"/proc/self/fdinfo/{pidfd}") as file:
            for line in file:
                if line.startswith("Pid:"):
                    pid = int(line[4:])
                    if pid > 1:
                        return pid
        raise OSError(3, "the process had ended before it was known")
    finally:
        if pidfd >= 0:
            os.close(pidfd)


def _python() -> str:
    """The interpreter that the server runs under; it needs the standard library only."""
    known = (getattr(sys, "_base_executable", ""), sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    return next((os.path.realpath(path) for path in known if path and os.access(path, os.X_OK)), sys.executable)


def _file(data: bytes) -> int:
    """A descriptor that has these bytes; -1 for none."""
    if not data:
        return -1
    fd = os.memfd_create("noria-sandbox")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _told(setup: Mapping[str, object]) -> int:
    """A descriptor that has what the server is to put in force."""
    return _file(msgspec.json.encode(setup))


def _bare(env: Mapping[str, str]) -> dict[str, str]:
    """What the server itself needs of the environment: nothing that could be a secret."""
    return {k: env[k] for k in ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL") if k in env}
