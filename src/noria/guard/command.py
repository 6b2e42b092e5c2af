"""A bash command line as its parse tree says: every simple command that it may run, and what it redirects where.

Owns: reading the tree (tree-sitter-bash). Must not know: which commands are harmless, any rule, quotes (words.py). What
is not understood for certain is said to be unclear, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from noria.guard.nodes import certain, ends_here, fed_by, splits, torn
from noria.guard.words import Word, Words, begin_of, text_of

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

    from noria.guard.unseen import Span

LONGEST = 16_384  # bytes of a command line that is looked at; a longer one is unclear
DEEPEST = 200  # nested parts


class Redirect(msgspec.Struct, frozen=True):
    """`> out`: the operator and where to; `at`: where it stands in the line's bytes. `writes`: it may change a file."""

    operator: str
    target: Word
    at: int = -1

    @property
    def writes(self) -> bool:
        """Whether it may change or make a file: everything but reading, closing, and copies of what is open."""
        if self.operator in ("<", "<<", "<<-", "<<<", "<&", "<&-", ">&-"):
            return False
        if self.operator == ">&" and self.target.fixed and re.fullmatch(r"\d+-?|-", self.target.text):
            return False
        return not (self.target.fixed and self.target.text in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"))


class Simple(msgspec.Struct, frozen=True):
    """A simple command: its words (the first is its name), and the variables that are set for it alone. `at`: where it
    stands in the line's bytes; -1 where it is no part of it; `fed`: where what is piped into it does, or -1."""

    words: tuple[Word, ...]
    assigned: tuple[str, ...] = ()
    at: int = -1
    fed: int = -1

    @property
    def name(self) -> str:
        """The name; empty where it is not fixed."""
        return self.words[0].text if self.words and self.words[0].fixed else ""


class Given(msgspec.Struct, frozen=True):
    """A variable that certainly is one of the words from `begin` to `end` of the line's bytes, by `for` or by `=`."""

    name: str
    words: tuple[Word, ...]
    begin: int
    end: int


class Parsed(msgspec.Struct, frozen=True):
    """What a command line may do. `unclear` says why it could not be told; then the rest is only part of it.

    `loops`: the variables of `for`. `set_`: variables that are set, once for each time; `given`: those of these times
    of which it is known to what. `functions`: names that are defined. `inputs`: here documents. `programs`: the values
    of variables that name programs (`GIT_PAGER`). `background`: something is left running. `evaluates`: values are read
    as arithmetic, in which a variable's content may be code.
    """

    commands: tuple[Simple, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    loops: tuple[Given, ...] = ()
    set_: tuple[str, ...] = ()
    given: tuple[Given, ...] = ()
    functions: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    background: bool = False
    evaluates: bool = False
    unclear: str = ""


NAMES_PROGRAM = re.compile(
    r"\w*(PAGER|EDITOR|COMMAND|_SSH|_RSH|ASKPASS|_DIFF|BROWSER|LESSOPEN|LESSCLOSE|SHELL)|VISUAL|PS[0-4]|(BASH_)?ENV"
    r"|GIT_CONFIG_(VALUE_\d+|PARAMETERS)"
)
"""Variables whose value a shell, git or a pager runs."""

_NO_PAGER = re.compile(r"(?:GIT_|MAN)?PAGER=(?:cat)?")  # it is shown as it is, which changes nothing
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
_ARITHMETIC = ("arithmetic_expansion", "c_style_for_statement", "postfix_expression", "ternary_expression")
_LISTS = ("pipeline", "list", "negated_command", "redirected_statement")
_CUT = re.compile(r"\$\{\w+:\s*-?\d+(:\s*-?\d+)?\}")
_NUMBERS = re.compile(r"\$\(\([\d\s+*/%()<>=!&|^~?:,-]*\)\)")  # there is nothing in it to be evaluated twice
_SPANS = frozenset((
    "expansion", "arithmetic_expansion", "command_substitution", "process_substitution", "heredoc_redirect", "string",
    "translated_string", "raw_string", "ansi_c_string", "comment",
))  # fmt: skip
_IN_BRACKETS = frozenset(("[", "]", "!", "=", "==", "!="))
_SUBSCRIPT_TESTS = frozenset(("-v", "-R"))
_ARITHMETIC_TESTS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"))
_LITERAL = frozenset(("word", "raw_string", "string_content", "number", "ansi_c_string", "regex", "extglob_pattern"))
_UNQUOTED = frozenset(("word", "number", "regex", "extglob_pattern"))
_OF_COMMANDS = ("command", "concatenation", "file_redirect", "heredoc_redirect", "redirected_statement")
_ONE_LINE = ("command", "file_redirect", "redirected_statement", "declaration_command", "test_command")
_ENDS = re.compile(r"(?<!\\)[\s|&;<>()]")
# The scanner of tree-sitter-bash 0.25 looks up what stands behind a brace in a table of 384 characters (`isdigit`): of
# others it reads what lies behind the table, which may be no memory: that ends the process.
_BEYOND = re.compile(r"\{[0-9.]*[^\x00-\xff]")
_JOINED = re.compile(r"(?<![\\\s&|;])(?:\\\\)*\\\n|(?<!\\)(?:\\\\)+\\\n")  # the end of a line is left out within a word


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
    if _BEYOND.search(command):
        return Parsed(unclear="a brace of it stands before a character that the parser of commands cannot read")
    try:
        root = bash_parser().parse(text).root_node
    except ImportError as error:
        return Parsed(unclear=f"the parser of commands cannot be loaded: {error}")
    if root.has_error:
        return Parsed(unclear="it could not be parsed as bash")
    reader = _Reader(text)
    found = reader.read(root)
    if not found.unclear and re.search(rb"[$<>][({\[]|`", text):
        from noria.guard.unseen import unseen  # most lines expand nothing but plain variables

        if unseen(text, reader.seen, reader.spans):
            return msgspec.structs.replace(found, unclear="it expands something where that could not be parsed")
    return found


class _Reader:
    """Reads one tree."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._words = Words(text)
        self._commands: list[Simple] = []
        self._redirects: list[Redirect] = []
        self._loops: list[Given] = []
        self._set: list[str] = []
        self._given: list[Given] = []
        self._functions: list[str] = []
        self._inputs: list[str] = []
        self._programs: list[str] = []
        self._background = False
        self._evaluates = False
        self._unclear = ""
        self._behind: dict[int, list[Node]] = {}  # by command: its words that stand behind a redirection
        self.seen: set[int] = set()  # where expansions begin, and backquotes end
        self.spans: list[Span] = []  # parts of the text in which others are expanded than outside, see unseen.py

    def read(self, root: Node) -> Parsed:
        self._visit(root, 0)
        return Parsed(
            tuple(self._commands), tuple(self._redirects), tuple(self._loops), tuple(self._set), tuple(self._given),
            tuple(self._functions), tuple(self._inputs), tuple(self._programs), self._background, self._evaluates,
            self._unclear,
        )  # fmt: skip

    def _visit(self, node: Node, depth: int) -> None:
        kind = node.type
        if depth > DEEPEST:
            self._unclear = self._unclear or "it is nested too deeply"
            return
        if not node.is_named:
            self._background = self._background or kind == "&"
            return
        if kind in _SPANS:
            self._span(node, kind)
        match kind:
            case "redirected_statement":
                self._moved(node)
            case "command":
                self._command(node)
            case "variable_assignment":
                self._assignment(node)
            case "declaration_command" | "unset_command":
                self._commands.append(Simple(tuple(self._declared(node))))
            case "file_redirect":
                self._redirect(node)
            case "heredoc_end" if not ends_here(node, self._text):
                self._unclear = self._unclear or "it could not be parsed as bash: where a here document ends"
            case "heredoc_body" | "herestring_redirect":
                self._inputs.append(text_of(node))
            case "for_statement":
                self._loop(node)
            case "function_definition":
                name = node.child_by_field_name("name")
                self._functions.append(text_of(name) if name else "")
            case "test_command" | "binary_expression" | "unary_expression" | "parenthesized_expression":
                self._test(node)
            case "expansion":
                self._expansion(node)
            case "arithmetic_expansion" if _NUMBERS.fullmatch(text_of(node)):
                return
            case _ if kind in _ARITHMETIC:
                self._evaluates = True
            case _ if kind not in _INSIDE:
                self._unclear = self._unclear or f"it has a part of a kind that is not known ({kind})"
        if kind in _UNQUOTED and b"\n" in (node.text or b""):
            # the grammar takes a line that begins with a backslash for the rest of the one before
            self._unclear = self._unclear or "it could not be parsed as bash: a line begins with a backslash"
        if kind in _UNQUOTED and _ENDS.search(text_of(node)) and node.parent and node.parent.type in _OF_COMMANDS:
            # what it takes for a pattern, behind `==`, is the rest of the line
            self._unclear = self._unclear or "it could not be parsed as bash: a word has the end of a command in it"
        if kind in _ONE_LINE and torn(node, self._text):
            self._unclear = self._unclear or "it could not be parsed as bash: where a word or a command ends"
        if kind == "comment" and node.start_byte and self._text[node.start_byte - 1] not in b" \t\n;&|()":
            self._unclear = self._unclear or "it could not be parsed as bash: a comment begins within a word"
        if kind == "compound_statement" and node.child_count and node.children[0].type == "((":
            self._evaluates = True
        for child in node.children:
            self._visit(child, depth + 1)

    def _span(self, node: Node, kind: str) -> None:
        """Notes what is expanded where."""
        begin, end = begin_of(node), node.end_byte
        match kind:
            case "expansion" | "arithmetic_expansion":
                self.seen.add(begin)
            case "command_substitution" | "process_substitution":
                self.seen.add(begin)
                backquoted = self._text[begin : begin + 1] == b"`"
                if backquoted:
                    self.seen.add(end - 1)
                self.spans.append((begin, end, "backquoted" if backquoted else "run"))
            case "heredoc_redirect":
                start = next((c for c in node.named_children if c.type == "heredoc_start"), None)
                quoted = start is not None and re.search(r"[\"'\\]", text_of(start)) is not None
                for body in node.named_children:
                    if body.type == "heredoc_body":
                        self.spans.append((body.start_byte, body.end_byte, "plain" if quoted else "quoted"))
            case "string" | "translated_string":
                self.spans.append((begin, end, "quoted"))
            case _:
                self.spans.append((begin, end, "plain"))

    def _moved(self, node: Node) -> None:
        """`sort a 2>&1 -o b`: the grammar has the words behind a redirection in it, and they are the command's."""
        words: list[Node] = []
        left = [child for child in node.named_children if child.type.endswith("_redirect")]
        while left:
            redirect = left.pop()
            match redirect.type:
                case "file_redirect":
                    words += redirect.children_by_field_name("destination")[1:]
                case "heredoc_redirect":
                    words += redirect.children_by_field_name("argument")
                    left += [child for child in redirect.named_children if child.type.endswith("_redirect")]
                case _:
                    pass
        if not words:
            return
        last: Node | None = node.child_by_field_name("body")
        while last is not None and last.type in _LISTS:
            body = last.child_by_field_name("body")
            last = body if body is not None else last.named_children[-1] if last.named_children else None
        if last is None or last.type != "command":
            self._unclear = self._unclear or "words stand behind a redirection of what is no simple command"
        else:
            self._behind.setdefault(last.id, []).extend(words)

    def _command(self, node: Node) -> None:
        words: list[Word] = []
        assigned: list[str] = []
        for child in node.named_children:
            match child.type:
                case "variable_assignment":
                    name = child.child_by_field_name("name")
                    if not _NO_PAGER.fullmatch(text_of(child)):
                        assigned.append(text_of(name) if name else "")
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    pass
                case "command_name":
                    words.append(
                        self._words.word(child.named_children[0]) if child.named_children else Word("", fixed=False)
                    )
                case _:
                    words.append(self._words.word(child))
        behind = sorted(self._behind.get(node.id, ()), key=lambda each: each.start_byte)
        words += [self._words.word(each) for each in behind]
        self._commands.append(Simple(tuple(words), tuple(assigned), node.start_byte, fed_by(node)))

    def _declared(self, node: Node) -> Iterator[Word]:
        """The words of `export`, `local`, `unset` and their like; assignments in them as they are written."""
        yield Word(text_of(node.children[0]))
        for child in node.named_children:
            yield Word(text_of(child)) if child.type == "variable_assignment" else self._words.word(child)

    def _assignment(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None or name.type == "subscript":
            self._evaluates = True  # what is in the brackets is arithmetic
        written, value = text_of(name) if name is not None else "", node.child_by_field_name("value")
        if value is not None and NAMES_PROGRAM.fullmatch(written):
            self._programs.append(self._words.word(value).text)
        if node.parent is None or node.parent.type in ("command", "declaration_command"):
            return
        if value is not None and value.type == "array":
            self._evaluates |= any(text_of(c).lstrip("\"'$").startswith("[") for c in value.named_children)
        self._set.append(written)
        if not any(c.type == "+=" for c in node.children) and certain(node):
            word = Word("") if value is None else self._words.word(value)
            self._given.append(Given(written, (word,), node.end_byte, len(self._text)))

    def _redirect(self, node: Node) -> None:
        operator = next((c.type for c in node.children if not c.is_named), "")
        target = node.child_by_field_name("destination")
        word = self._words.word(target) if target is not None else Word("")
        self._redirects.append(Redirect(operator, word, node.start_byte))

    def _loop(self, node: Node) -> None:
        name = node.child_by_field_name("variable")
        values = node.children_by_field_name("value")
        words = tuple(self._words.word(v) for v in values)
        self._loops.append(Given(text_of(name) if name else "", words, node.start_byte, node.end_byte))
        if any(child.type == "select" for child in node.children):
            self._unclear = self._unclear or "it asks for a choice (select)"

    def _test(self, node: Node) -> None:
        """`[[ a -eq b ]]` evaluates both as arithmetic; `-v a` the subscript of a. What stands in `[ ]` outside of
        quotes may become several words, `-v` among them."""
        test = node
        while test.parent is not None and test.type != "test_command":
            test = test.parent
        single = bool(test.children) and test.children[0].type == "["
        operators = {c.type if not c.is_named else text_of(c) for c in node.children}
        if single and not {c.type for c in node.children if not c.is_named} <= _IN_BRACKETS:
            self._unclear = self._unclear or "it could not be parsed as bash: something ends a command in [ ]"
        if not (_SUBSCRIPT_TESTS if single else _ARITHMETIC_TESTS).isdisjoint(operators):
            self._evaluates = True
        if single and any(map(splits, node.named_children)):
            self._evaluates = True

    def _expansion(self, node: Node) -> None:
        """`${x:=y}` sets x; `${x:1:2}` and `${x[1]}` evaluate; `${!x}` and `${x@P}` run what is in it."""
        text, operators = text_of(node), {c.type for c in node.children if not c.is_named}
        if operators & {"=", ":="}:
            self._set.append(re.sub(r"\W.*", "", text[2:], flags=re.DOTALL))
        if operators & {"!", "@"} or "@" in text[2:-1].partition("[")[0] or text.startswith("${!"):
            self._evaluates = True
        if (re.match(r"\$\{[#]?\w+:\s*[^-=?+]", text) and not _CUT.fullmatch(text)) or any(
            c.type == "subscript" and not re.fullmatch(r"\w+\[[@*0-9]+\]", text_of(c)) for c in node.children
        ):
            self._evaluates = True
