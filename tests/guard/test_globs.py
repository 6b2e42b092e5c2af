"""Path patterns beside git's own reading of them: what `git check-ignore` says of a tree, pattern by pattern."""

from __future__ import annotations

import os
import subprocess
from itertools import product
from pathlib import Path

import pytest

from noria.guard import globs

FILES = (
    "a/a/a", "a/b/foo.py",
    "a/foo/b", "A/x.pem", "b/foo/foo", "foo/foo/x", "foo.py/d", "bar.pyc", ".env/a", "d/.env.local",
    "key1.pem", "keyx.pem", "build/build", "x-y", "[a]/x", "a*b", "#x", "!x", "a b/c", "a\\b/d", "secret1/secret2/k",
)  # fmt: skip
ATOMS = (
    "a", "foo", "*", "?",
    "[ab]", "[!a]", "[^a]", "[a-c]", "*.py", "*.py?", "foo*", "*o", "**o", "f**o", "foo.*", ".env*",
    "key[0-9].pem", "key[[:digit:]].pem", "key[![:digit:]].pem", "[[:alpha:]]", "[[:upper:][:digit:]]", "[]a]", "[!]a]",
    "[a\\]]", "[[]a]", "[a-]", "x[-]y", "x[!-]y", "\\[a\\]", "\\#x", "\\!x", "a\\*b", "a\\\\b", "a b",
    "a\\ b", "\\a", "secret*", "[[:punct:]]*", "[[:alnum:]_-]*", "[[:space:]]", "[\\a-c]", "[a-\\c]", "[--a]",
)  # fmt: skip
FORMS = ("{}", "{}/", "**/{}", "{}/**", "*/{}", "a/{}", "{}/*/", "a/**/{}")


@pytest.mark.seed("G19", "G21")
def test_a_path_pattern_is_read_as_git_reads_it(tmp_path: Path) -> None:
    root = os.path.realpath(tmp_path)
    subprocess.run(["git", "init", "-q", root], check=True)
    for name in FILES:
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    ignored = Path(root, ".git/info/exclude")
    ignored.parent.mkdir(exist_ok=True)
    wrong: list[tuple[str, set[str]]] = []
    for form, atom in product(FORMS, ATOMS):
        pattern = form.format(atom)
        ignored.write_text(f"{pattern}\n")
        said = subprocess.run(
            ["git", "check-ignore", "--no-index", "--stdin", "-z"], cwd=root, input="\0".join(FILES).encode(),
            capture_output=True,
        )  # fmt: skip
        theirs = set(filter(None, said.stdout.decode().split("\0")))
        compiled = globs.path_pattern(pattern)
        ours = {name for name in FILES if compiled.fits(os.path.join(root, name), root)}
        if ours != theirs:
            wrong.append((pattern, ours ^ theirs))
    assert wrong == []


@pytest.mark.parametrize(
    "pattern", ["[a", "a/[b/c]", "[\\]", "[", "[!", "[a-", "x[[:digit:]", "[[:digits:]]", "[[:Alpha:]]", "[z-a]"]
)
def test_a_pattern_that_would_never_fit_is_none(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"never closed|there is no \[:|the end comes first"):
        globs.path_pattern(pattern)
