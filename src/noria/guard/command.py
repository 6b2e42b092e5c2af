"""A bash command line as its parse tree says: every simple command that it may run, and what it redirects where.

Owns: reading the tree (tree-sitter-bash), quotes, what is known of a word. Must not know: which commands are harmless,
any rule. What is not understood for certain is said to be unclear, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 16_384  # bytes of a command line that is looked at; a longer one is unclear
DEEPEST = 200  # nested parts


class Word(msgspec.Struct, frozen=True):
    """A word of a command after its quotes are removed. `fixed`: it is exactly `text` whatever happens; else `text` is
    the part before the first expansion, and what follows is known only when it runs. `pattern`: not fixed for nothing
    but file name patterns (`*`, `?`, `[`, `{`), so that it becomes names, or stays; then `raw` is the pattern, where
    nothing in it is quoted; so it is for what begins at home (`~/x`, "$HOME/x"), and `<()` for what a process
    substitution gives, which is no name of a file. `variable`: the one whose content follows `text`, where nothing
    else does but plain characters; `alone`: not even these."""

    text: str
    fixed: bool = True
    pattern: bool = False
    variable: str = ""
    raw: str = ""
    alone: bool = False


class Redirect(msgspec.Struct, frozen=True):
    """`> out`: the operator and where to. `writes`: it may change a file."""

    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        """Whether it may change or make a file: everything but reading, closing, and copies of what is open."""
        if self.operator in ("<", "<<", "<<-", "<<<", "<&", "<&-", ">&-"):
            return False
        if self.operator == ">&" and self.target.fixed and re.fullmatch(r"\d+-?|-", self.target.text):
            return False
        return not (self.target.fixed and self.target.text in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"))


class Simple(msgspec.Struct, frozen=True):
    """A simple command: its words (the first is its name), and the variables that are set for it alone."""

    words: tuple[Word, ...]
    assigned: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name; empty where it is not fixed."""
        return self.words[0].text if self.words and self.words[0].fixed else ""


class Parsed(msgspec.Struct, frozen=True):
    """What a command line may do. `unclear` says why it could not be told; then the rest is only part of it.

    `loops`: the words that a variable of a `for` goes through. `set_`: variables that are set. `functions`: names that
    are defined. `background`: something is left running. `evaluates`: values are read as arithmetic, in which a
    variable's content may be code.
    """

    commands: tuple[Simple, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    loops: tuple[tuple[str, tuple[Word, ...]], ...] = ()
    set_: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    background: bool = False
    evaluates: bool = False
    unclear: str = ""


# What is looked into; any other kind of node is unclear.
_INSIDE = frozenset((
    "program", "list", "pipeline", "negated_command", "subshell", "compound_statement", "if_statement", "elif_clause",
    "else_clause", "while_statement", "do_group", "case_statement", "case_item", "redirected_statement", "string",
    "command_substitution", "process_substitution", "concatenation", "string_content", "expansion", "comment",
    "heredoc_redirect", "heredoc_body", "heredoc_start", "heredoc_end", "heredoc_content", "herestring_redirect",
    "test_command", "unary_expression", "binary_expression", "parenthesized_expression", "test_operator", "word",
    "raw_string", "ansi_c_string", "translated_string", "number", "simple_expansion", "variable_name",
    "special_variable_name", "file_descriptor", "array", "regex", "extglob_pattern", "command_name", "subscript",
    "brace_expression", "variable_assignments",
))  # fmt: skip
_ARITHMETIC = frozenset((
    "arithmetic_expansion", "c_style_for_statement", "postfix_expression", "ternary_expression",
))  # fmt: skip
_ARITHMETIC_TESTS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"))
_LITERAL = frozenset(("word", "raw_string", "string_content", "number", "ansi_c_string", "regex", "extglob_pattern"))
_UNQUOTED = frozenset(("word", "number", "regex", "extglob_pattern"))
_JOINED = re.compile(r"(?<![\\\s&|;])(?:\\\\)*\\\n|(?<!\\)(?:\\\\)+\\\n")  # the end of a line is left out within a word
_PATTERN = re.compile(r"(?<!\\)[*?\[{]|^~|(?<!\\)=~|:~")
_ESCAPE = re.compile(rb"\\(.)|\\\n", re.DOTALL)
_IN_QUOTES = re.compile(r'\\([$`"\\\n])')


@lru_cache(maxsize=1)
def bash_parser() -> Parser:
    """The parser; one for all. Raises ImportError."""
    from tree_sitter import Language, Parser

    return Parser(Language(bash_grammar()))


def bash_grammar() -> object:
    """The grammar of bash out of its package, without what the package loads to find its other files (12 ms). Raises
    ImportError."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec, module_from_spec

    package = find_spec("tree_sitter_bash")
    places = package.submodule_search_locations if package is not None else None
    found = PathFinder.find_spec("tree_sitter_bash._binding", places) if places else None
    if found is None or found.loader is None:
        raise ImportError("tree-sitter-bash is not installed")
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module.language()


@lru_cache(maxsize=64)
def parse(command: str) -> Parsed:
    """What the command line may do, by its parse tree."""
    try:
        text = command.encode()
    except UnicodeEncodeError:
        return Parsed(unclear="it is no text")
    if len(text) > LONGEST:
        return Parsed(unclear=f"it is longer than {LONGEST:,} bytes")
    if odd := re.search(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]", command):
        return Parsed(unclear=f"it has the control character {odd.group()!r}")
    if _JOINED.search(command):
        return Parsed(unclear="a word of it goes over the end of a line")
    try:
        root = bash_parser().parse(text).root_node
    except ImportError as error:
        return Parsed(unclear=f"the parser of commands cannot be loaded: {error}")
    if root.has_error:
        return Parsed(unclear="it could not be parsed as bash")
    return _Reader(text).read(root)


class _Reader:
    """Reads one tree."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._commands: list[Simple] = []
        self._redirects: list[Redirect] = []
        self._loops: list[tuple[str, tuple[Word, ...]]] = []
        self._set: list[str] = []
        self._functions: list[str] = []
        self._background = False
        self._evaluates = False
        self._unclear = ""

    def read(self, root: Node) -> Parsed:
        self._visit(root, 0)
        return Parsed(
            tuple(self._commands), tuple(self._redirects), tuple(self._loops), tuple(self._set), tuple(self._functions),
            self._background, self._evaluates, self._unclear,
        )  # fmt: skip

    def _visit(self, node: Node, depth: int) -> None:
        kind = node.type
        if depth > DEEPEST:
            self._unclear = self._unclear or "it is nested too deeply"
            return
        if not node.is_named:
            self._background = self._background or kind == "&"
            return
        match kind:
            case "command":
                self._command(node)
            case "variable_assignment":
                self._assignment(node)
            case "declaration_command" | "unset_command":
                self._commands.append(Simple(tuple(self._declared(node))))
            case "file_redirect":
                self._redirect(node)
            case "for_statement":
                self._loop(node)
            case "function_definition":
                name = node.child_by_field_name("name")
                self._functions.append(_of(name) if name else "")
            case "test_command" | "binary_expression" | "unary_expression":
                self._test(node)
            case "expansion":
                self._expansion(node)
            case _ if kind in _ARITHMETIC:
                self._evaluates = True
            case _ if kind not in _INSIDE:
                self._unclear = self._unclear or f"it has a part of a kind that is not known ({kind})"
        if kind in _UNQUOTED and b"\n" in (node.text or b""):
            # the grammar takes a line that begins with a backslash for the rest of the one before
            self._unclear = self._unclear or "it could not be parsed as bash: a line begins with a backslash"
        if kind == "compound_statement" and node.child_count and node.children[0].type == "((":
            self._evaluates = True
        for child in node.children:
            self._visit(child, depth + 1)

    def _command(self, node: Node) -> None:
        words: list[Word] = []
        assigned: list[str] = []
        for child in node.named_children:
            match child.type:
                case "variable_assignment":
                    name = child.child_by_field_name("name")
                    assigned.append(_of(name) if name else "")
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    pass
                case "command_name":
                    words.append(self._word(child.named_children[0]) if child.named_children else Word("", fixed=False))
                case _:
                    words.append(self._word(child))
        self._commands.append(Simple(tuple(words), tuple(assigned)))

    def _declared(self, node: Node) -> Iterator[Word]:
        """The words of `export`, `local`, `unset` and their like; assignments in them as they are written."""
        yield Word(_of(node.children[0]))
        for child in node.named_children:
            yield Word(_of(child)) if child.type == "variable_assignment" else self._word(child)

    def _assignment(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None or name.type == "subscript":
            self._evaluates = True  # what is in the brackets is arithmetic
        if node.parent is not None and node.parent.type not in ("command", "declaration_command"):
            self._set.append(_of(name) if name is not None else "")

    def _redirect(self, node: Node) -> None:
        operator = next((c.type for c in node.children if not c.is_named), "")
        target = node.child_by_field_name("destination")
        self._redirects.append(Redirect(operator, self._word(target) if target is not None else Word("")))

    def _loop(self, node: Node) -> None:
        name = node.child_by_field_name("variable")
        values = node.children_by_field_name("value")
        self._loops.append((_of(name) if name else "", tuple(self._word(v) for v in values)))
        if any(child.type == "select" for child in node.children):
            self._unclear = self._unclear or "it asks for a choice (select)"

    def _test(self, node: Node) -> None:
        """`[[ a -eq b ]]` evaluates both as arithmetic; `[[ -v a ]]` the subscript of a."""
        operators = (c.type if not c.is_named else _of(c) for c in node.children)
        if not _ARITHMETIC_TESTS.isdisjoint(operators):
            self._evaluates = True

    def _expansion(self, node: Node) -> None:
        """`${x:=y}` sets x; `${x:1:2}` and `${x[1]}` evaluate; `${!x}` and `${x@P}` run what is in it."""
        text = _of(node)
        operators = {c.type for c in node.children if not c.is_named}
        if operators & {"=", ":="}:
            self._set.append(re.sub(r"\W.*", "", text[2:], flags=re.DOTALL))
        if operators & {"!", "@"} or "@" in text[2:-1].partition("[")[0] or text.startswith("${!"):
            self._evaluates = True
        if re.match(r"\$\{[#]?\w+:\s*[^-=?+]", text) or any(
            c.type == "subscript" and not re.fullmatch(r"\w+\[[@*0-9]+\]", _of(c)) for c in node.children
        ):
            self._evaluates = True

    # -- words ---------------------------------------------------------------------------------------------------

    def _word(self, node: Node) -> Word:
        """What a word is once its quotes are removed, as far as that can be known."""
        text = ""
        if node.type == "process_substitution":
            return Word("", fixed=False, raw="<()")
        for piece, fixed, pattern in self._pieces(node):
            if not fixed:
                named = pattern and self._only_patterns(node)
                raw = _of(node) if named and not re.search(r"[\\\"'$`]", _of(node)) else _at_home(_of(node))
                alone = bool(_ALONE.fullmatch(_of(node)))
                return Word(text, fixed=False, pattern=named, variable=_variable(node), raw=raw, alone=alone)
            text += piece
        return Word(text)

    def _only_patterns(self, node: Node) -> bool:
        return all(fixed or pattern for _, fixed, pattern in self._pieces(node))

    def _pieces(self, node: Node) -> Iterator[tuple[str, bool, bool]]:
        """Parts of a word: the text, whether it is exactly that, and if not whether it is a pattern of names."""
        match node.type:
            case "raw_string":
                yield _of(node)[1:-1], True, False
            case "word" if _of(node) in ("{", "}"):  # alone it expands to nothing
                yield _of(node), True, False
            case "word" | "number" | "test_operator" | "variable_name" | "extglob_pattern" | "regex":
                yield from _unquoted(_of(node))
            case "string":
                yield from self._quoted(node)
            case "concatenation" if re.fullmatch(r"[\w./=:%+-]*\{\}[\w./=:%+-]*", _of(node)):  # no braces that expand
                yield _of(node), True, False
            case "concatenation":
                # The tree takes braces apart; between parts that touch there is nothing else.
                if re.search(r"(?<!\\)[{]", self._bare(node)):
                    yield "", False, True
                    return
                for child in node.children:
                    yield from self._pieces(child)
            case "ansi_c_string":
                yield (_of(node)[2:-1], True, False) if "\\" not in _of(node) else ("", False, False)
            case _:
                yield "", False, False

    def _bare(self, node: Node) -> str:
        """A word's text without what stands in quotes or is expanded."""
        return "".join(_of(child) for child in node.children if child.type in ("word", "number", "extglob_pattern"))

    def _quoted(self, node: Node) -> Iterator[tuple[str, bool, bool]]:
        """The inside of double quotes. The tree leaves blanks between its parts out: the text's own bytes count."""
        at = node.start_byte + 1
        for child in node.named_children:
            if child.type == "string_content":
                continue
            yield _IN_QUOTES.sub(_kept, self._text[at : child.start_byte].decode()), True, False
            yield "", False, False
            at = child.end_byte
        yield _IN_QUOTES.sub(_kept, self._text[at : node.end_byte - 1].decode()), True, False


def _kept(found: re.Match[str]) -> str:
    """What a backslash in double quotes leaves: the character; before a line's end nothing."""
    return "" if found.group(1) == "\n" else found.group(1)


def _unquoted(text: str) -> Iterator[tuple[str, bool, bool]]:
    """A word outside quotes: backslashes keep the next character, patterns and `~` are expanded."""
    found = _PATTERN.search(text)
    plain = text[: found.start()] if found else text
    yield re.sub(r"\\(.)", lambda m: "" if m.group(1) == "\n" else m.group(1), plain, flags=re.DOTALL), True, False
    if found:
        yield "", False, found.group() in ("*", "?", "[", "{")


def _at_home(text: str) -> str:
    """The text, where it is a path that begins at home and nothing else in it has to be known: as `~/x`."""
    found = re.fullmatch(r"(\"?\$(?:HOME|\{HOME\})\"?|~)((?:/[^\\\"'$`]*)?)\"?", text)
    return f"~{found.group(2)}" if found else ""


_ALONE = re.compile(r'"?\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})"?')


def _variable(node: Node) -> str:
    """The name of its variable, where a word is plain characters with one in them: `$f`, `"${f}"`, `./"$f".txt`."""
    found = re.fullmatch(r'"?[\w./-]*"?\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})"?[\w.-]*"?', _of(node))
    return (found.group(1) or found.group(2)) if found else ""


def _of(node: Node) -> str:
    return (node.text or b"").decode()
