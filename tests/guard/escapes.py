"""Attempts to get out of the sandbox, each a command that prints ESCAPED where it has succeeded, and a stage for them.

Each runs without a sandbox first: what does not succeed there either proves nothing and is not counted.
"""

# ruff: noqa: E501 - a command is read best in one line

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from noria.guard.sandbox import Kind, Sandbox
from noria.guard.sandbox_places import Plan, plan
from tests.tools.helpers import soon

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin") or "python3"
KEY = "sk-agents-own-key"
ABSTRACT = f"noria-escape-{os.getpid()}"


class Start(NamedTuple):
    """A process to be created."""

    argv: list[str]
    program: str
    cwd: str
    env: Mapping[bytes, bytes]
    stdin: int
    stdout: int
    stderr: int
    passed: tuple[int, ...] = ()


def _python(code: str, *modules: str) -> str:
    return f"cat > try.py <<'END'\nimport os, sys, socket, ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n{code}\nEND\n{PYTHON} try.py"


def _call(number: str, *args: str, then: str = "") -> str:
    """A system call by its number on x86_64; it has succeeded where it gives no error."""
    return _python(
        f"r = libc.syscall({number}, {', '.join(args)})\n{then or 'pass'}\nprint('ESCAPED' if r >= 0 else 'no')"
    )


def _connect(family: str, kind: str, address: str) -> str:
    return _python(
        f"s = socket.socket({family}, {kind})\ns.settimeout(2)\ns.connect({address})\ns.send(b'out')\nprint('ESCAPED')"
    )


ATTEMPTS: dict[str, str] = {
    # files
    "write": "echo x > O/new && echo ESCAPED",
    "append": "echo x >> O/victim && echo ESCAPED",
    "delete": "rm -f O/victim; test -e O/victim || echo ESCAPED",
    "rename": "mv O/victim O/moved && echo ESCAPED",
    "chmod": "chmod 600 O/victim && echo ESCAPED",
    "touch": "touch -d 2001-01-01 O/victim && echo ESCAPED",
    "mkdir": "mkdir O/folder && echo ESCAPED",
    "truncate": _python("os.truncate('O/victim', 0)\nprint('ESCAPED')"),
    "xattr": _python("os.setxattr('O/victim', 'user.x', b'1')\nprint('ESCAPED')"),
    "through a link": "ln -s O/linked link && echo x > link && echo ESCAPED",
    "through a link to a folder": "ln -s O box && echo x > box/linked && echo ESCAPED",
    "through a hard link": "ln O/victim hard && echo x >> hard && echo ESCAPED",
    "a link out of the way": "mkdir d && mv d e && ln -s O d && echo x > d/f && echo ESCAPED",
    "through /proc/self/root": "echo x > /proc/self/root/O/f && echo ESCAPED",
    "through another's root": "echo x > /proc/PID/root/O/f && echo ESCAPED",
    "through another's folder": "echo x > /proc/PID/cwd/f && echo ESCAPED",
    "through another's descriptor": "echo x > /proc/PID/fd/9 && echo ESCAPED",
    "openat2": _python(
        "how = (ctypes.c_uint64 * 3)(0o102 , 0o600, 0)\nr = libc.syscall(437, -100, b'O/new', how, 24)\n"
        "print('ESCAPED' if r >= 0 else 'no')"
    ),
    "an inherited descriptor": "for fd in /proc/self/fd/*; do (echo x > $fd/inherited) 2>/dev/null && echo ESCAPED; done",
    "a shell's start file": "echo x >> H/.bashrc && echo ESCAPED",
    "git's own configuration": "HOME=H git config --global alias.x '!sh' && echo ESCAPED",
    "a program in the path": "mkdir -p H/.local/bin && echo x > H/.local/bin/ls && echo ESCAPED",
    "/tmp of others": "cat T | grep -q secret && echo ESCAPED",
    "/dev/shm": "cat S | grep -q secret && echo ESCAPED",
    # what is secret
    "a key": "grep -q secret H/.ssh/id_ed25519 && echo ESCAPED",
    "credentials": "grep -q secret H/.aws/credentials && echo ESCAPED",
    "a netrc": "grep -q secret H/.netrc && echo ESCAPED",
    "a key, copied": "cp H/.ssh/id_ed25519 mine && grep -q secret mine && echo ESCAPED",
    "a key through a link": "ln -s H/.ssh keys && grep -q secret keys/id_ed25519 && echo ESCAPED",
    "a key, renamed": "mv H/.ssh H/.hss && grep -q secret H/.hss/id_ed25519 && echo ESCAPED",
    "noria's journal": "grep -q secret H/.local/share/noria/journal.db && echo ESCAPED",
    "noria's journal, written": "echo x >> H/.local/share/noria/journal.db && echo ESCAPED",
    "noria's rules": "mkdir -p H/.config/noria && echo x > H/.config/noria/config.toml && echo ESCAPED",
    "the passwords": "test -s /etc/shadow && cat /etc/shadow > mine && test -s mine && echo ESCAPED",
    "the agent's key": "tr '\\0' '\\n' < /proc/PARENT/environ | grep -q sk-agents && echo ESCAPED",
    "the agent's key, anywhere": "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q sk-agents && echo ESCAPED",
    # what git and noria believe
    "a hook": "echo x > .git/hooks/pre-commit && echo ESCAPED",
    "a hook, replaced": "mv .git/hooks .git/h && mkdir .git/hooks && echo x > .git/hooks/pre-commit && echo ESCAPED",
    "the configuration of git": "git config core.fsmonitor ./evil && echo ESCAPED",
    "the configuration, replaced": "cp .git/config c && echo x >> c && mv c .git/config && echo ESCAPED",
    "the repository, replaced": "mv .git old && cp -r old .git && echo x > .git/config && echo ESCAPED",
    "a nested repository": "echo x > sub/.git/hooks/pre-commit && echo ESCAPED",
    "the workspace's rules": "mkdir -p .noria && echo x > .noria/config.toml && echo ESCAPED",
    # other processes
    "signals": "kill -TERM PID && echo ESCAPED",
    "the parent": "kill -CONT PARENT && echo ESCAPED",
    "ptrace": _python("r = libc.ptrace(16, PID, 0, 0)\nprint('ESCAPED' if r == 0 else 'no')"),
    "memory": _python("f = open('/proc/PID/mem', 'rb+')\nprint('ESCAPED')"),
    "process_vm_readv": _python(
        "a = int(open('/proc/PID/maps').readline().split('-')[0], 16)\nb = ctypes.create_string_buffer(8)\n"
        "class V(ctypes.Structure): _fields_ = [('p', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
        "l, r = V(ctypes.addressof(b), 8), V(a, 8)\n"
        "print('ESCAPED' if libc.process_vm_readv(PID, ctypes.byref(l), 1, ctypes.byref(r), 1, 0) == 8 else 'no')"
    ),
    "pidfd_getfd": _python(
        "fd = os.pidfd_open(PID)\nprint('ESCAPED' if libc.syscall(438, fd, 9, 0) >= 0 else 'no')"
    ),
    "priorities": _python("os.setpriority(os.PRIO_PROCESS, PID, 5)\nprint('ESCAPED')"),
    "limits of others": _python("import resource\nresource.prlimit(PID, resource.RLIMIT_CORE, (0, 0))\nprint('ESCAPED')"),
    "seeing them": "test -e /proc/PID/stat && echo ESCAPED",
    "shared memory": _python("print('ESCAPED' if libc.shmget(SHM, 0, 0) >= 0 else 'no')"),
    # the network
    "tcp": _connect("socket.AF_INET", "socket.SOCK_STREAM", "('127.0.0.1', TCP)"),
    "udp": _connect("socket.AF_INET", "socket.SOCK_DGRAM", "('127.0.0.1', UDP)") + "; sleep .05",
    "tcp6": _connect("socket.AF_INET6", "socket.SOCK_STREAM", "('::1', TCP6)"),
    "the machine's address": _connect("socket.AF_INET", "socket.SOCK_STREAM", "('ADDRESS', TCP)"),
    "a name server": _connect("socket.AF_INET", "socket.SOCK_DGRAM", "('192.0.2.53', 53)"),
    "bash's own": "exec 5<>/dev/tcp/127.0.0.1/TCP && echo ESCAPED",
    "a raw socket": _python("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nprint('ESCAPED')"),
    "a packet socket": _python("socket.socket(17, socket.SOCK_RAW, 3)\nprint('ESCAPED')"),
    "vsock": _python("socket.socket(40, socket.SOCK_STREAM)\nprint('ESCAPED')"),
    "a socket in a folder": _connect("socket.AF_UNIX", "socket.SOCK_STREAM", "'O/socket'"),
    "an abstract socket": _connect("socket.AF_UNIX", "socket.SOCK_STREAM", "'\\0ABSTRACT'"),
    "a pipe in a folder": "echo out > O/pipe && echo ESCAPED",
    "a pipe in a folder, through a link": "ln -s O/pipe pipe && echo out > pipe && echo ESCAPED",
    "an agent in /tmp": _connect("socket.AF_UNIX", "socket.SOCK_STREAM", "'A'"),
    # the kernel
    "a user name space": "unshare -Ur true && echo ESCAPED",
    "clone": _call("56", "0x10000011", "0", "0", "0", "0", then="if r == 0: os._exit(0)"),
    "clone3": _python(
        "a = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)\nr = libc.syscall(435, a, 64)\n"
        "if r == 0: os._exit(0)\nprint('ESCAPED' if r > 0 else 'no')"
    ),
    "a mount name space": "unshare -m true && echo ESCAPED",
    "mount": "mkdir m && mount -t tmpfs none m && echo ESCAPED; umount m",
    "a mount of the new kind": _python("print('ESCAPED' if libc.syscall(430, b'tmpfs', 0) >= 0 else 'no')"),
    "remount": "mount -o remount,rw / && echo ESCAPED",
    "entering a name space": _python("print('ESCAPED' if libc.setns(os.open('/proc/PID/ns/net', 0), 0) == 0 else 'no')"),
    "a setuid program": "test $(id -u) != 0 && O/setuid O/rootonly | grep -q secret && echo ESCAPED",
    "a device": "mknod dev b 7 0 && echo ESCAPED",
    "the disk": "for d in /dev/vda /dev/sda /dev/nvme0n1; do head -c 1 $d 2>/dev/null | wc -c | grep -q 1 && echo ESCAPED; done",
    "kvm": "test -c /dev/kvm && exec 5<>/dev/kvm && echo ESCAPED",
    "settings of the kernel": "f=/proc/sys/vm/swappiness; v=$(cat $f) && echo $v > $f && echo ESCAPED",
    "settings in /sys": "f=/sys/kernel/mm/transparent_hugepage/khugepaged/defrag; v=$(cat $f) && echo $v > $f && echo ESCAPED",
    "the name of the machine": _python(
        "n = socket.gethostname().encode()\nprint('ESCAPED' if libc.sethostname(n, len(n)) == 0 else 'no')"
    ),
    "a key of the kernel": _call("248", "b'user'", "b'noria-try'", "b'x'", "1", "-4"),
    "io_uring": _python("p = (ctypes.c_uint32 * 30)()\nprint('ESCAPED' if libc.syscall(425, 4, p) >= 0 else 'no')"),
    "bpf": _python("a = (ctypes.c_uint32 * 32)(1, 4, 4, 1)\nprint('ESCAPED' if libc.syscall(321, 0, a, 128) >= 0 else 'no')"),
    "userfaultfd": _call("323", "1"),
    "open_by_handle_at": _python(
        "h = ctypes.create_string_buffer(136)\nctypes.memmove(h, (128).to_bytes(4, 'little'), 4)\nm = ctypes.c_int()\n"
        "libc.name_to_handle_at(-100, b'O/victim', h, ctypes.byref(m), 0)\nd = os.open('O', os.O_RDONLY)\n"
        "print('ESCAPED' if libc.open_by_handle_at(d, h, 0) >= 0 else 'no')"
    ),
    "words into a terminal": _python(
        "import pty, fcntl, termios\na, b = pty.openpty()\nos.setsid() if os.getpid() != os.getsid(0) else None\n"
        "fcntl.ioctl(b, termios.TIOCSCTTY, 0)\nfcntl.ioctl(b, termios.TIOCSTI, b'x')\nprint('ESCAPED')"
    ),
    "the log of the kernel": _python("print('ESCAPED' if libc.klogctl(10, 0, 0) >= 0 else 'no')"),
    "limits, raised": "ulimit -S -u 50 && ulimit -H -u 50 && ulimit -H -u 60 && echo ESCAPED",
    "out of memory, never": "echo -900 > /proc/self/oom_score_adj && echo ESCAPED",
    "real time": _python("os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\nprint('ESCAPED')"),
    "watching all files": _python("print('ESCAPED' if libc.fanotify_init(4, 0) >= 0 else 'no')"),
}  # fmt: skip

NOT_OF_LANDLOCK = frozenset((
    "a hook", "a hook, replaced", "the configuration of git", "the configuration, replaced", "the repository, replaced",
    "a nested repository", "the workspace's rules", "seeing them", "priorities", "limits of others", "shared memory",
    "chmod", "touch", "xattr",
))  # fmt: skip
"""What Landlock cannot hold: a program says so when it is used, and so does `noria doctor`."""


class Stage:
    """A workspace and a world outside of it, and somebody in it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.work, self.outside, self.home = base / "work", base / "outside", base / "home"
        for folder in (self.work, self.home / ".ssh", self.home / ".aws", self.home / ".local/share/noria",
                       self.home / ".config/noria", self.work / "sub"):  # fmt: skip
            folder.mkdir(parents=True, exist_ok=True)
        self.outside.mkdir(exist_ok=True)
        for path in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".local/share/noria/journal.db"):
            (self.home / path).write_text("secret")
        for repository in (self.work, self.work / "sub"):
            subprocess.run(
                ["git", "init", "-q", str(repository)], check=True, env=os.environ | {"HOME": str(self.home)}
            )
            (repository / ".git/hooks").mkdir(exist_ok=True)
        self.temporary = Path(tempfile.mkdtemp(prefix="noria-escape-", dir="/tmp"))
        (self.temporary / "file").write_text("secret")
        self.shared = Path(tempfile.mkstemp(dir="/dev/shm")[1])
        self.shared.write_text("secret")
        self.sockets = [self._listen(str(self.outside / "socket")), self._listen("\0" + ABSTRACT),
                        self._listen(str(self.temporary / "agent"))]  # fmt: skip
        self.tcp = socket.create_server(("0.0.0.0", 0), backlog=64)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.tcp6 = socket.create_server(("::1", 0), family=socket.AF_INET6, backlog=64) if _has_six() else None
        self.shm = os.getpid() + 770_000
        ctypes_shmget(self.shm, create=True)
        os.mkfifo(self.outside / "pipe", 0o666)
        self.reader = os.open(self.outside / "pipe", os.O_RDWR | os.O_NONBLOCK)
        self.somebody: subprocess.Popen[bytes] | None = None
        self.inherited = os.open(self.outside, os.O_RDONLY)
        os.set_inheritable(self.inherited, True)

    @staticmethod
    def _listen(path: str) -> socket.socket:
        end = socket.socket(socket.AF_UNIX)
        end.bind(path)
        end.listen(64)
        return end

    def reset(self) -> None:
        """As it was before an attempt."""
        for name in ("new", "linked", "f", "folder", "moved", "inherited"):
            path = self.outside / name
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        (self.outside / "victim").write_text("safe")
        (self.outside / "victim").chmod(0o644)
        hidden = self.home / ".hss"
        if hidden.exists():
            hidden.rename(self.home / ".ssh")
        if (self.work / "old").exists():
            shutil.rmtree(self.work / ".git")
            (self.work / "old").rename(self.work / ".git")
        for path in self.work.iterdir():
            if path.name not in (".git", "sub", ".noria"):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for gitdir in (self.work / ".git", self.work / "sub/.git"):
            (gitdir / "hooks/pre-commit").unlink(missing_ok=True)
        if (self.work / ".git/h").exists():
            shutil.rmtree(self.work / ".git/hooks")
            (self.work / ".git/h").rename(self.work / ".git/hooks")
        (self.work / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        (self.work / ".noria/config.toml").unlink(missing_ok=True)
        if self.somebody is None or self.somebody.poll() is not None:
            self.somebody = subprocess.Popen(
                ["bash", "-c", f"exec 9>>{self.outside}/log; exec sleep 600"], cwd=self.outside, start_new_session=True
            )
            soon(lambda: Path(f"/proc/{self.somebody.pid}/comm").read_text() == "sleep\n")  # type: ignore[union-attr]

    def text(self, attempt: str) -> str:
        """The command of an attempt on this stage."""
        assert self.somebody is not None
        words = {
            "PARENT": str(os.getpid()), "PID": str(self.somebody.pid), "SHM": str(self.shm), "ABSTRACT": ABSTRACT,
            "TCP6": str(self.tcp6.getsockname()[1]) if self.tcp6 else "1", "TCP": str(self.tcp.getsockname()[1]),
            "UDP": str(self.udp.getsockname()[1]), "ADDRESS": _address(), "O/": f"{self.outside}/",
            "'O'": f"'{self.outside}'", "O box": f"{self.outside} box", "O d ": f"{self.outside} d ",
            "H/": f"{self.home}/", "HOME=H ": f"HOME={self.home} ", "cat T ": f"cat {self.temporary}/file ",
            "cat S ": f"cat {self.shared} ", "'A'": f"'{self.temporary}/agent'",
        }  # fmt: skip
        command = ATTEMPTS[attempt]
        for word, means in words.items():
            command = command.replace(word, means)
        return command

    def succeeded(self, attempt: str, output: str) -> bool:
        """Whether an attempt has got out. What is sent by UDP has only if it has come."""
        self.udp.setblocking(False)
        came = False
        with suppress(BlockingIOError):
            while self.udp.recv(64):
                came = True
        return "ESCAPED" in output.splitlines() and (came or attempt != "udp")

    def close(self) -> None:
        """Take it down."""
        if self.somebody is not None:
            self.somebody.kill()
            self.somebody.wait()
        for end in (*self.sockets, self.tcp, self.udp, *((self.tcp6,) if self.tcp6 else ())):
            end.close()
        os.close(self.inherited)
        os.close(self.reader)
        (self.outside / "pipe").unlink()
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.shared.unlink(missing_ok=True)
        ctypes_shmget(self.shm, create=False)

    def plan(self, processes: int = 4096, memory: int = 0) -> Plan:
        """What a sandbox holds here."""
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        private = (str(self.home / ".local/share/noria"), str(self.home / ".config/noria"))
        return plan(str(self.work), private=private, env=env, processes=processes, memory=memory)


def ctypes_shmget(key: int, *, create: bool) -> None:
    """Make a segment of System V, or remove it."""
    import ctypes

    libc = ctypes.CDLL(None)
    segment = libc.shmget(key, 4096, 0o1600 if create else 0)
    if not create and segment >= 0:
        libc.shmctl(segment, 0, None)


def _has_six() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def _address() -> str:
    """An address of this machine that is not its own loop; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        try:
            end.connect(("192.0.2.1", 9))
            return str(end.getsockname()[0])
        except OSError:
            return "192.0.2.1"


def plain(stage: Stage, command: str) -> str:
    """What a command prints without a sandbox."""
    try:
        return subprocess.run(
            ["bash", "-c", command], cwd=stage.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=20, pass_fds=[stage.inherited], start_new_session=True,
        ).stdout.decode("utf-8", "replace")  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timeout"


def boxed(box: Sandbox, stage: Stage, command: str, *, seconds: float = 20) -> str:
    """What it prints in one."""
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    env = {b"PATH": os.fsencode(os.environ["PATH"]), b"HOME": os.fsencode(str(stage.home))}
    served = box.spawn(
        Start(
            ["bash", "-c", command],
            shutil.which("bash") or "/bin/bash",
            str(stage.work),
            env,
            nothing,
            writing,
            writing,
        )
    )
    os.close(writing)
    os.close(nothing)
    soon(lambda: served.poll() is not None, seconds)
    if served.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(served.pid, signal.SIGKILL)
    os.set_blocking(reading, False)
    said = b""
    with suppress(BlockingIOError):
        while data := os.read(reading, 1 << 16):
            said += data
    os.close(reading)
    return said.decode("utf-8", "replace")


def verdicts(base: Path, kind: Kind) -> Iterator[tuple[str, bool, bool, str]]:
    """For each attempt: its name, whether it succeeds without a sandbox, whether in one, and what it printed there."""
    stage = Stage(base)
    box = Sandbox(stage.plan, (kind,))
    try:
        alone = dict[str, bool]()
        for attempt in ATTEMPTS:
            stage.reset()
            alone[attempt] = stage.succeeded(attempt, plain(stage, stage.text(attempt)))
        stage.reset()
        shutil.rmtree(stage.work / ".noria", ignore_errors=True)
        box.start()
        for attempt in ATTEMPTS:
            stage.reset()
            said = boxed(box, stage, stage.text(attempt))
            yield attempt, alone[attempt], stage.succeeded(attempt, said), said
    finally:
        box.close()
        stage.close()
