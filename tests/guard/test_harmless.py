"""Which command lines run without being asked for, because they certainly only read."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from noria.guard.harmless import only_reads
from noria.guard.modes import inside

READS = r"""
sed -n -e p a
env | grep x
read x < a
for f in *; do sort "$f"; done
git log -p
git diff
rg a
find . -name x
sort f
ls -la
cat a | head -3
for f in *.py; do wc -l ./"$f"; done
for f in a src/x; do cat "$f"; done
for f in src/*; do cat $f; done
echo ${x:=1}
cd src && ls
git log | head
echo "a && b"
echo $(date)
grep -rn "foo" src | sort | uniq -c
sed -n '1,20p' a
sed -n 5p a
sed 's/a/b/g' a
awk '{print $1}' a
awk -F: '{ print $1 }' a
git status --short
timeout 5 git status
timeout -k 1 5 nice -n 3 cat a
bash -c "ls | wc -l"
test -f a && echo yes
[ -d src ] && ls src
[[ -f a ]] && cat a
if [ -f a ]; then cat a; elif true; then ls; else pwd; fi
while false; do ls; done
case a in a) ls;; esac
( ls; cat a )
{ ls; }
! grep -q x a
ls 2>/dev/null
ls 2>&1 | tail -5
ls |& cat
LC_ALL=C sort a
env LANG=C ls
python --version
command -v python
cat <<< hi
wc -l < a
git branch -a
git show HEAD:src/x
git --no-pager diff HEAD~1 -- src
git ls-files | wc -l
git diff HEAD -- '*.py'
git config --get user.name
git stash list
find . -type f -exec grep -l foo {} +
find . -name '*.py' -exec wc -l {} \;
jq . a
x=1; echo $x
cat src/*.py
ls *.py
grep -e 'a > b' a
stat a
tail -n 5 a
printf '%s\n' a b
ls | sort -r -k2,2n
sleep 1
cat no-such-file
grep -r "/api/users" src
/bin/ls
"""

DOES_MORE = r"""
git diff --output=x
git diff --outpu=x
git -c core.fsmonitor=./h.sh status
git -c alias.x='!touch x' x
git -p status
git --git-dir=x status
git --exec-path=. status
git -C /tmp status
git log --ext-diff
git grep -Ovi x
git grep --open-files-in-pager=vi x
git branch new
git branch -D new
git tag v1
git config user.name x
git checkout .
git remote add a b
git stash
git reflog delete x
git worktree add x
git log $x
rg --pre ./h.sh a f
rg --pr=./h.sh a f
rg -z x
find . -exec touch x \;
find . -execdir cat {} \;
find . -delete
find . -fprint x
find . -ok ls \;
find . -exec find . -delete \;
find -L . -name x
find $x
sort -o x f
sort -ro x f
sort --outp=x a
sort "$f"
sort --compress-program=./h.sh a
uniq a b
xxd -r a b
date -s now
date 010100002030
hostname evil
sed -i s/a/b/ f
sed 'w x' a
sed -n '1w x' a
sed '1e touch x' a
sed 's/a/b/e' a
sed 's/a/b/w x' a
sed -f script a
awk 'BEGIN{system("touch x")}'
awk '{print > "x"}' a
awk '{print | "sh"}' a
awk -f script a
tee x
cat a | tee b
BASH_ENV=./h.sh bash -c true
PATH=. ls
PATH=/x; ls
for PATH in .; do ls; done
env PATH=. ls
cat /etc/passwd
cat ~/.ssh/id_rsa
cat $HOME/x
cat src/../../../../../../../../../../etc/passwd
cat --show-all ../../../../../../../../../etc/passwd
cat </etc/passwd
grep -f/etc/passwd a
grep --file=/etc/passwd a
ls /
cd / && ls
cd .. && cat x
cd - && ls
cd && ls
cd $x && ls
pushd src
ls > f
ls >> f
ls >| f
ls &> f
ls >& f
ls 3<> f
> f
git log > ~/.bashrc
echo a > $x
rm a
(rm f)
{ rm f; }
git log && rm f
git log; rm f
git log || rm f
git log & rm f
git log | sh
env rm f
nice rm f
timeout 5 rm x
time rm x
xargs rm <list
ls | xargs rm
\rm f
"rm" f
r''m f
r\m f
command rm f
bash -c "rm f"
bash -c "$x"
bash script
sh -x -c ls
if true; then rm x; fi
while rm x; do :; done
until rm x; do :; done
for f in $(rm x); do :; done
case $(rm x) in *) ls;; esac
case x in x) rm x;; esac
[[ -n $(rm x) ]]
[[ $x -eq 1 ]]
[[ -v a ]]
test -v 'a[$(rm x)]'
test $x
echo ${PATH:=.}
for f in /etc/*; do cat "$f"; done
echo ${x:-$(rm x)}
echo ${!x}
echo ${x@P}
echo ${a[$i]}
echo $((a))
((a++))
let a=1
for ((i=0;i<3;i++)); do ls; done
select x in a; do ls; done
f() { rm x; }; f
function ls { rm x; }
cat <(rm x)
cat >(rm x)
ls `rm x`
ls $(rm x)
echo "$(rm x)"
cat <<< $(rm x)
$x
$(echo rm) x
./ls
/tmp/ls
src/ls
eval ls
source a
. a
exec ls
trap 'rm x' EXIT
alias ls=rm
export A=1
declare -x A=1
unset A
set -a
printf -v PATH x
printf "$x"
coproc ls
ls &
grep -R x .
tree -o x
file -C
less a
python -c 1
npm ls
make -n
curl x
kill 1
jq . $x
echo 'a
ls ;;; ls
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "a").write_text("a\n")
    return root


def asked(command: str, root: Path) -> str:
    return only_reads(command, str(root), lambda path: inside(path, (str(root),)))


@pytest.mark.case("E02")
@pytest.mark.parametrize("command", READS.strip().splitlines())
def test_what_only_reads_is_not_asked_for(workspace: Path, command: str) -> None:
    assert asked(command, workspace) == ""


@pytest.mark.case("E01", "E02")
@pytest.mark.parametrize("command", DOES_MORE.strip().splitlines())
def test_what_may_do_more_is(workspace: Path, command: str) -> None:
    assert asked(command, workspace)


@pytest.mark.case("E01")
@pytest.mark.parametrize(
    "command",
    [
        "git log\nrm f",
        "ls # x\nrm f",
        "cat <<EOF\n$(rm f)\nEOF",
        "cat <<'E' | sh\nrm -rf f\nE",
        "ls \\\n; rm f",
        "ls\n\\rm f",
        "ls a\n\n\\rm f",
        "ls 2>/dev/null\n\\rm f",
        "! ls\n\\rm f",
        "ls # x\n\\rm f",
        "a=1\n\\rm f",
        "r\\\nm f",
        "ls a\\\nb",
        'echo "$\\\n(rm f)"',
        "ls \\\\\\\nrm f",
        "ls \x00",
    ],
)
def test_lines(workspace: Path, command: str) -> None:
    assert asked(command, workspace)


@pytest.mark.parametrize(
    "command", ["git log\nls", "cat <<EOF\n$(date)\nEOF", "cat <<'E'\n$(rm f)\nE", "ls \\\n  -l", ""]
)
def test_lines_that_only_read(workspace: Path, command: str) -> None:
    assert asked(command, workspace) == ""


@pytest.mark.case("E03")
def test_a_link_that_leads_out(workspace: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    (workspace / "box").symlink_to(outside)
    (workspace / "inner").symlink_to(workspace / "a")
    assert asked("cat box/secret", workspace) and asked("ls box", workspace) and asked("cd box && ls", workspace)
    assert asked("cat inner", workspace) == ""
    assert only_reads("ls", str(outside), lambda path: inside(path, (str(workspace),)))


@pytest.mark.case("E03", "E02")
@pytest.mark.parametrize(
    "command",
    [
        "cat b*/x", "cat l*", "cat l?", "cat [l]x", "cat [[:alpha:]]x", "cat {box,a}/x", "cat {a,lx}", "cat ./*/x",
        "head -3 *",
        "cat src/../l*", "ls .*", "cat [^b]x", "cat {..,.}/o/x", "cat {a..z}x",
        'cat "l"*', "cat 'b'*/x", "cat ../o*/x", "grep --file=l* a",
        "for f in *; do cat $f; done", "for f in l; do cat ${f}x; done", "for f in x; do cat box/$f; done",
        "cat < l*", "diff -r . src", "diff -ru src .", "egrep -R a .", "fgrep -R a .", "egrep --dereference-rec a .",
        "cat </dev/tcp/127.0.0.1/1", "cat < /dev/udp/127.0.0.1/1", "cat <'/dev/tcp/localhost/1'",
        "wc -l < /dev/tcp/localhost/1",
    ],
)  # fmt: skip
def test_what_patterns_and_redirections_lead_to(workspace: Path, command: str) -> None:
    outside = workspace.parent / "o"
    outside.mkdir()
    (outside / "x").write_text("secret")
    (workspace / "box").symlink_to(outside)
    (workspace / "lx").symlink_to(outside / "x")
    assert asked(command, workspace)


@pytest.mark.parametrize(
    "command",
    [
        "cat s*/x", "cat src/*", "cat {a,src/x}", "cat src/{x,y}*", "ls *.none", "cat [a]", 'cat "src"/*',
        "diff a src/x",
        "diff -r --no-dereference src src", "for f in src/*; do cat $f; done", "egrep -rn a src",
    ],
)  # fmt: skip
def test_patterns_that_stay_inside(workspace: Path, command: str) -> None:
    """Also where there is a link that leads out elsewhere."""
    outside = workspace.parent / "o"
    outside.mkdir()
    (workspace / "box").symlink_to(outside)
    (workspace / "inner").symlink_to(workspace / "a")
    assert asked(command, workspace) == ""


def test_a_line_that_is_too_long_or_too_deep_is_asked_for(workspace: Path) -> None:
    assert asked("ls " + "a" * 20_000, workspace)
    assert asked("(" * 400 + "ls" + ")" * 400, workspace)
    assert asked("\udcff", workspace)


@pytest.mark.case("E02")
@pytest.mark.parametrize(
    ("config", "quiet"),
    [
        ("[core]\n\tfsmonitor = ./h.sh\n", False),
        ("[core]\n\tfsmonitor = false\n\tbare = false\n", True),
        ("[core] fsmonitor=./h.sh\n", False),
        ("[CORE]\nFsMonitor = ./h.sh", False),
        ("[core]\n\tfsmonitor\n", False),
        ('[diff "x"]\n\ttextconv = ./h.sh\n', False),
        ('[filter "x"]\n\tclean = ./h.sh\n', False),
        ("[include]\n\tpath = other\n", False),
        ("[diff]\n\texternal = ./h.sh\n", False),
        ('[remote "origin"]\n\turl = x\n\tfetch = +a:b\n[branch "main"]\n\tremote = origin\n', True),
        ("[user]\n\tname = core.fsmonitor\n", True),
        ("# [core]\n# fsmonitor = x\n", True),
    ],
)
def test_a_repository_that_names_programs(workspace: Path, config: str, quiet: bool) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    place = workspace / ".git" / "config"
    place.write_text(place.read_text() + config)
    for command in ("git status", "cd src && git diff | head", "timeout 5 git log", "bash -c 'git status'"):
        assert (asked(command, workspace) == "") is quiet, command
    assert asked("ls", workspace) == ""


def test_other_forms_of_repositories(workspace: Path) -> None:
    """A bare one within the work tree, one with submodules, a file that leads nowhere: asked for."""
    subprocess.run(["git", "init", "-q", "--bare", str(workspace / "src" / "bare")], check=True)
    assert only_reads("git log", str(workspace / "src" / "bare"), lambda path: True)
    assert asked("git log", workspace) == ""
    (workspace / ".git").write_text("gitdir: nowhere\n")
    assert asked("git log", workspace)
    (workspace / ".git").unlink()
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    assert asked("git log", workspace) == ""
    (workspace / ".gitmodules").touch()
    assert asked("git status", workspace)


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize("command", READS.strip().splitlines())
def test_nothing_changes_when_they_run(workspace: Path, command: str) -> None:
    """The table's first half, run for real: the folder is the same after it."""

    def seen() -> list[tuple[str, int, int]]:
        found = [p for p in workspace.rglob("*") if ".git" not in p.parts]
        return sorted((str(p), p.lstat().st_size, p.lstat().st_mtime_ns) for p in found)

    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    before = seen()
    env = {"PATH": os.environ["PATH"], "HOME": str(workspace.parent)}
    subprocess.run(
        ["bash", "-c", command], cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, env=env,
        check=False,
    )  # fmt: skip
    assert seen() == before


@pytest.mark.case("E02")
def test_a_repository_within_that_git_looks_into_has_its_own_configuration(tmp_path: Path) -> None:
    """git asks it for changes, which runs its fsmonitor, though no .gitmodules names it; so does `cd`, and `git -C`."""
    work, inner = tmp_path / "work", tmp_path / "work/sub"
    for folder in (work, inner):
        folder.mkdir()
        subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    name = ("-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run(["git", *name, "commit", "-q", "--allow-empty", "-m", "x"], cwd=inner, check=True)
    (inner / ".git/config").write_text("[core]\n\tfsmonitor = touch ran; false\n")
    assert asked("git status", work) == ""
    for line in ("cd sub && git status", "git -C sub status"):
        assert "the repository's own configuration" in asked(line, work)
    subprocess.run(["git", *name, "add", "sub"], cwd=work, check=True, capture_output=True)
    for line in ("git status", "git diff", "cd sub/.. && git status"):
        assert "the repository's own configuration" in asked(line, work)


def test_a_file_s_size_is_no_repository(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    (work / "big").write_bytes(bytes(0xE000))
    subprocess.run(["git", "add", "big"], cwd=work, check=True)
    assert asked("git status", work) == ""


@pytest.mark.case("E02")
@pytest.mark.parametrize("hook", ["post-index-change", "fsmonitor-watchman"])
def test_a_repository_with_a_hook_that_showing_runs(tmp_path: Path, hook: str) -> None:
    """`git status` writes the index where a file only looks changed, and runs that hook: it is seen to."""
    work, other = tmp_path / "work", tmp_path / "other"
    name = ("-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / "f").touch()
    subprocess.run(["git", "add", "f"], cwd=work, check=True)
    subprocess.run(["git", *name, "commit", "-q", "-m", "x"], cwd=work, check=True)
    subprocess.run(["git", "worktree", "add", "-q", str(other)], cwd=work, check=True, capture_output=True)
    assert asked("git status", work) == asked("git diff", other) == ""
    place = work / ".git/hooks" / hook
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    place.chmod(0o755)
    os.utime(work / "f", (1, 1))
    subprocess.run(["git", "status"], cwd=work, check=True, capture_output=True)
    assert (tmp_path / "ran").exists() or hook != "post-index-change"
    for line in ("git status", "git diff --stat", "git describe --dirty"):
        assert asked(line, work)
        assert asked(line, other)


@pytest.mark.case("E02")
def test_a_version_that_a_file_of_the_project_answers(workspace: Path) -> None:
    """`cargo` is rustup's, which runs the toolchain of a folder of the project's where rust-toolchain.toml has one."""
    for line in ("cargo --version", "rustc -V", "timeout 5 cargo --version"):
        assert asked(line, workspace) == ""
    (workspace / "rust-toolchain.toml").write_text('[toolchain]\npath = "x"\n')
    for line in ("cargo --version", "cd src && rustc --version", "timeout 5 cargo --version"):
        assert "says which" in asked(line, workspace)


@pytest.mark.case("E03")
def test_what_find_runs_comes_to_no_link_that_leads_out(tmp_path: Path) -> None:
    """It follows none itself; `cat` of what it finds does."""
    work, out = tmp_path / "work", tmp_path / "out"
    (work / "sub").mkdir(parents=True)
    out.write_text("x")
    (work / "sub/in").symlink_to("../sub")
    lines = ("find . -exec cat {} +", "find sub -exec grep -n x {} \\;", "cd sub && find -exec head {} \\;")
    for line in lines:
        assert asked(line, work) == ""
    (work / "sub/x.txt").symlink_to(out)
    for line in (*lines, "find . -name '*.txt' -exec cat {} +", "find . -not -name x.py -exec cat {} +"):
        assert "which leads outside" in asked(line, work), line
    for line in ("find . -type f -exec cat {} +", "find . -name '*.py' -exec cat {} +", "find . -exec echo {} +"):
        assert asked(line, work) == "", line


@pytest.mark.case("E02")
def test_a_pattern_becomes_the_names_that_are_there(workspace: Path) -> None:
    """One of them may look like an option, or be a second word where there should be one."""
    for line in ("sort *", "grep x *", "md5sum *", "rg x *", "uniq src/*", "grep --include=*.py -r x .", "sort *.none"):
        assert asked(line, workspace) == "", line
    assert asked("uniq *", workspace)
    (workspace / "-ob").touch()
    for line in ("sort *", "tree *", "for d in src .; do cd $d; done; sort *"):
        assert "so called" in asked(line, workspace), line
    for line in ("sort ./*", "sort -- *", "cd src; sort ../*", "cat *"):
        assert asked(line, workspace) == "", line
    assert asked("cd src; cd ..; sort *", workspace)
    (workspace / "--pre=x").touch()
    assert "so called" in asked("rg x *", workspace)
    (workspace / "src/--include=y.py").touch()
    assert asked("cd src; grep --include=*.py -r x .", workspace) == ""


FED = """\
find . -name '*.py' | xargs wc -l
find . -type f | xargs grep -n foo
find . -name '*.py' -print0 | xargs -0 grep foo
find . -type f 2>/dev/null | xargs ls -la
find . -type f | sort | head -20 | xargs cat
find . -type f | grep -v node_modules | head -n 3 | xargs -n1 basename
find src -type f | xargs -r head -5
cd src && find . -type f | xargs cat
rg -l foo | xargs wc -l
grep -rl foo . | xargs sed -n 1,5p
rg -l "foo bar" src | xargs head -1
find . | xargs -n 1 -P 4 wc -c | sort -n
timeout 5 find . | timeout 5 xargs cat"""

NOT_FED = r"""
git ls-files | xargs wc -l
find . -print0 | xargs grep x
find . | xargs -0 cat
find . -printf '%p\n' | xargs cat
find . -ls | xargs cat
find . | xargs rm
find . | xargs -I{} cat {}
find . | xargs sh -c 'cat "$@"' _
find . | xargs sort -o x
find . | xargs
find . | xargs git log
find . | xargs cat /etc/passwd
find . | xargs grep -f /etc/passwd
find . | xargs jq
echo /etc/passwd | xargs cat
cat a | xargs cat
ls | xargs cat
find / -name passwd | xargs cat
find . | sed 's/^/x/' | xargs cat
find . | sort a | xargs cat
find . | head a | xargs cat
find . | head 5 | xargs cat
find . | grep x a | xargs cat
cat a | grep x | xargs cat
find . | xargs -a a cat
find . | xargs -d, cat
find . | xargs -E x cat
xargs cat < a
xargs cat
find . | FOO=1 xargs cat
{ find .; echo /etc/passwd; } | xargs cat
(find .) | xargs cat
find . | cat - a | xargs cat
find . | xargs uniq
find . | xargs $x
find $x | xargs cat
rg x | xargs cat
rg -l x --pre ./h.sh | xargs cat
grep -rlo x . | xargs cat
grep -l x /etc/passwd | xargs cat"""


@pytest.mark.case("E02")
@pytest.mark.parametrize("line", FED.splitlines())
def test_names_that_are_found_are_fed_to_what_reads(workspace: Path, line: str) -> None:
    """As long as each is one name to xargs, and none leads out."""
    assert asked(line, workspace) == ""


@pytest.mark.case("E02")
@pytest.mark.parametrize("line", NOT_FED.strip().splitlines())
def test_what_else_is_fed_is_asked_about(workspace: Path, line: str) -> None:
    assert asked(line, workspace)


@pytest.mark.case("E02", "E03")
def test_names_that_xargs_would_take_otherwise(workspace: Path) -> None:
    cat, zero, files = "find . | xargs cat", "find . -print0 | xargs -0 cat", "find . -type f | xargs cat"
    (workspace / "src/x /etc").mkdir(parents=True)
    (workspace / "src/x /etc/passwd").touch()
    assert "may take the name" in asked(cat, workspace) and asked(zero, workspace) == ""
    shutil.rmtree(workspace / "src/x ")
    (workspace / "src/link").symlink_to("/etc/passwd")
    assert "leads outside" in asked(cat, workspace) and "leads outside" in asked(zero, workspace)
    assert asked(files, workspace) == "" and "leads outside" in asked("rg -l x | xargs cat", workspace)
    (workspace / "src/link").unlink()
    (workspace / "-x").touch()
    assert "may take the name" in asked("rg -l x | xargs grep a", workspace)
