"""An HTML page as Markdown, for a model to read: its own text, headings, lists, tables, code and links.

Owns: what of a page is kept and how it is written. Must not know: where the page came from. What surrounds a page
(navigation, footers, scripts, forms) is left out; where the page marks its main part, that is what is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from urllib.parse import urljoin

from noria.tools.tags import Tag, tags

DEEPEST = 400  # elements in one another that are kept track of
SHORT = 200  # characters below which it is looked whether a page's main part is all of it

_BLOCKS = frozenset((
    "address", "article", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption",
    "figure", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "html", "legend", "li", "main",
    "ol", "p", "pre", "search", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
))  # fmt: skip
_VOID = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
))  # fmt: skip
_NEVER = frozenset((
    "script", "style", "template", "svg", "math", "iframe", "object", "canvas", "audio", "video", "textarea", "select",
    "button", "datalist", "noscript", "noembed", "noframes", "head", "title", "map", "dialog",
))  # fmt: skip
_AROUND = frozenset(("nav", "footer", "aside", "menu"))
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}
_ANCHORS = frozenset(("#", "¶", "§", "🔗", "\ue157", "permalink"))


def markdown(page: str, base: str = "", *, links: bool = True) -> str:
    """The page as Markdown. `base`: the address that its links are relative to; without `links` they are left out."""
    found = list(tags(page))
    main = _main(found)
    text = _Writer(base, links, main, False).write(found)
    if main and len(text) < SHORT:
        whole = _Writer(base, links, "", False).write(found)
        text = whole if len(whole) > 5 * len(text) else text
    text = text or _Writer(base, links, "", True).write(found)
    title = _title(found)
    if title and not re.search(r"^# ", text, re.MULTILINE):
        text = f"# {title}\n\n{text}".strip()
    return text


def _main(found: Iterable[Tag]) -> str:
    """The element that holds the page's main part: its name, `role` for one that says so, or nothing."""
    articles = 0
    for tag in found:
        if tag.ends:
            continue
        if tag.name == "main":
            return "main"
        if "role" in tag.inside and tag.name and tag.attributes().get("role") == "main":
            return "role"
        articles += tag.name == "article"
    return "article" if articles == 1 else ""


def _title(found: list[Tag]) -> str:
    for tag, text in pairwise(found):
        if tag.name == "title" and not tag.ends:
            return "" if text.name else " ".join(text.inside.split())
    return ""


class _Writer:
    """Writes one page. `main`: what to write is inside such an element; `around`: also what surrounds a page."""

    def __init__(self, base: str, links: bool, main: str, around: bool) -> None:
        self._base, self._links, self._main, self._around = base, links, main, around
        self._blocks: list[str] = []
        self._line: list[str] = []  # pieces of the block that is being written
        self._open: list[tuple[str, bool, bool]] = []  # name, whether it is left out, whether it is the main part
        self._names: dict[str, int] = {}  # how many of a name are open
        self._skipping = 0
        self._inside = 0
        self._marks: list[tuple[str, int, str]] = []  # name, where in the line it began, the link's address
        self._lists: list[list[int]] = []  # of each list the next number; 0 where it has none
        self._marker = ""  # of an item whose first block is to come
        self._quotes = 0
        self._pre = 0
        self._language = ""
        self._tables: list[_Table] = []

    def write(self, found: Iterable[Tag]) -> str:
        """The whole."""
        for tag in found:
            if not tag.name:
                if not self._skipping and (self._inside or not self._main):
                    self._line.append(tag.inside)
            elif tag.ends:
                self._ends(tag.name)
            else:
                self._starts(tag)
        while self._open:
            self._close()
        self._flush()
        return re.sub(r"\n{3,}", "\n\n", "".join(self._blocks)).strip()

    # -- elements ------------------------------------------------------------------------------------------------

    def _starts(self, tag: Tag) -> None:
        name = tag.name
        if name == "br":
            self._line.append("\n" if self._pre else "\0")
        elif name == "hr":
            self._flush()
            self._write("---")
        elif name == "img":
            self._image(tag)
        if name in _VOID or len(self._open) >= DEEPEST:
            return
        if name in ("li", "dt", "dd", "tr", "td", "th", "option"):
            self._close_sibling(name)
        hidden = self._hidden(tag)
        main = name == self._main or (self._main == "role" and tag.attributes().get("role") == "main")
        self._open.append((name, hidden, main))
        self._names[name] = self._names.get(name, 0) + 1
        self._skipping += hidden
        self._inside += main
        if self._skipping:
            return
        if name in _BLOCKS:
            self._flush()
        self._begin(tag)

    def _begin(self, tag: Tag) -> None:
        """What an element that is shown begins with."""
        match tag.name:
            case "ul" | "ol":
                start = tag.attributes().get("start", "1") if tag.name == "ol" else "0"
                self._lists.append([int(start) if start.isdecimal() and len(start) < 9 else 1])
            case "li":
                self._marker = "- "
                if self._lists and self._lists[-1][0]:
                    self._marker = f"{self._lists[-1][0]}. "
                    self._lists[-1][0] += 1
            case "dd":
                self._marker = ": "
            case "blockquote":
                self._quotes += 1
            case "pre":
                self._pre += 1
                self._language = _language(tag)
            case "code" if self._pre:
                self._language = self._language or _language(tag)
            case "a" if not self._pre:
                self._marks.append(("a", len(self._line), tag.attributes().get("href", "")))
            case "code" | "kbd" | "samp" | "tt":
                self._marks.append((tag.name, len(self._line), ""))
            case name if name in _MARKS and not self._pre:
                self._marks.append((name, len(self._line), ""))
            case "table":
                if self._tables:
                    self._tables[-1].layout = True
                self._tables.append(_Table(self._blocks))
                self._blocks = []
            case "tr" if self._tables:
                self._tables[-1].rows.append([])
            case "q":
                self._line.append('"')
            case _:
                pass

    def _ends(self, name: str) -> None:
        if not self._names.get(name):
            return
        while self._close() != name:
            pass

    def _close(self) -> str:
        """Close the innermost element; its name."""
        name, hidden, main = self._open.pop()
        self._names[name] -= 1
        if not self._skipping:
            self._finish(name)
        self._skipping -= hidden
        self._inside -= main
        return name

    def _finish(self, name: str) -> None:
        """What an element that was shown ends with."""
        if self._marks and self._marks[-1][0] == name:
            self._unmark()
        match name:
            case "pre":
                self._fence()
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._flush("#" * int(name[1]) + " ")
            case "dt":
                self._flush()
            case "ul" | "ol":
                self._flush()
                if self._lists:
                    self._lists.pop()
                if not self._lists:
                    self._blocks.append("\n")
            case "li" | "dd":
                self._flush()
                self._marker = ""
            case "blockquote":
                self._flush()
                self._quotes -= 1
            case "td" | "th":
                self._flush()
                if self._tables:
                    self._blocks = self._tables[-1].cell(self._blocks, head=name == "th")
            case "table":
                self._flush()
                if self._tables:
                    self._end_table()
            case "q":
                self._line.append('"')
            case _ if name in _BLOCKS:
                self._flush()
            case _:
                pass

    def _close_sibling(self, name: str) -> None:
        """`<li>` ends an item before it that was never closed, `<td>` a cell, and so on."""
        above = {"tr": ("table",), "td": ("tr", "table"), "th": ("tr", "table")}.get(name, ("ul", "ol", "dl", "select"))
        same = {"td": ("td", "th"), "th": ("td", "th"), "dt": ("dt", "dd"), "dd": ("dt", "dd")}.get(name, (name,))
        if not any(self._names.get(each) for each in same):
            return
        for each, _, _ in reversed(self._open):
            if each in above:
                return
            if each in same:
                self._ends(each)
                return

    def _hidden(self, tag: Tag) -> bool:
        if tag.name in _NEVER or (tag.name in _AROUND and not self._around):
            return True
        if "hid" not in tag.inside and "none" not in tag.inside:
            return False
        said = tag.attributes()
        style = said.get("style", "").replace(" ", "").lower()
        return "hidden" in said or said.get("aria-hidden") == "true" or "display:none" in style

    # -- what is written -----------------------------------------------------------------------------------------

    def _flush(self, before: str = "") -> None:
        """End the block that is being written."""
        if self._pre:
            return
        text = re.sub(r"[ \t\r\n\f]+", " ", "".join(self._line))
        text = re.sub(r" *\0[ \0]*", "\n", text).strip()
        self._line.clear()
        self._marks.clear()
        if text:
            self._write(f"{before}{text}")

    def _write(self, text: str) -> None:
        """One block, with the marks of the lists and quotes that it is in."""
        deep = max(len(self._lists) - 1, 0)
        pad = "  " * deep
        first = pad + self._marker if self._marker else pad + ("  " if self._lists else "")
        rest = " " * len(first)
        quote = "> " * self._quotes
        lines = text.split("\n")
        body = "\n".join(quote + (first if n == 0 else rest) + line for n, line in enumerate(lines))
        tight = bool(self._marker)
        self._marker = ""
        self._blocks.append(f"\n{body}\n" if tight and self._blocks else f"\n\n{body}\n")
        if tight:
            self._blocks[-1] = self._blocks[-1].rstrip("\n")

    def _unmark(self) -> None:
        """An element within a line ends: put its marks around what it held."""
        name, start, address = self._marks.pop()
        inner = "".join(self._line[start:])
        del self._line[start:]
        bare = inner.strip()
        if not bare:
            self._line.append(inner)
            return
        before, after = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
        if name in _MARKS:
            self._line.append(f"{before}{_MARKS[name]}{bare}{_MARKS[name]}{after}")
        elif name == "a":
            self._line.append(f"{before}{self._link(bare, address)}{after}")
        elif self._pre:
            self._line.append(inner)
        else:
            ticks, pad = ("``", " ") if "`" in bare else ("`", "")
            self._line.append(f"{before}{ticks}{pad}{bare}{pad}{ticks}{after}")

    def _link(self, text: str, address: str) -> str:
        if text.lower() in _ANCHORS and (not address or address.startswith("#") or "#" in address):
            return ""
        whole = self._address(address)
        if not self._links or not whole:
            return text
        return f"<{whole}>" if text == whole else f"[{text}]({whole})"

    def _address(self, address: str) -> str:
        """An address as a whole one; nothing for what leads nowhere."""
        address = address.strip()
        scheme = address.partition(":")[0].lower()
        if not address or address.startswith("#") or scheme in ("javascript", "data", "vbscript", "blob"):
            return ""
        try:
            return urljoin(self._base, address).replace(" ", "%20").replace(")", "%29")
        except ValueError:
            return ""

    def _image(self, tag: Tag) -> None:
        if self._skipping or (self._main and not self._inside):
            return
        said = tag.attributes()
        text, address = " ".join(said.get("alt", "").split()), self._address(said.get("src", ""))
        if text:
            self._line.append(f"![{text}]({address})" if address and self._links else f"[image: {text}]")

    def _fence(self) -> None:
        self._pre -= 1
        if self._pre:
            return
        text = "".join(self._line).replace("\0", "\n").removeprefix("\n").rstrip()
        self._line.clear()
        self._marks.clear()
        if text.strip():
            longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
            fence = "`" * (longest + 1)
            self._write(f"{fence}{self._language}\n{text}\n{fence}")
        self._language = ""

    def _end_table(self) -> None:
        table = self._tables.pop()
        rest, self._blocks = self._blocks, table.outer
        rows = [row for row in table.rows if any(row)]
        wide = max((len(row) for row in rows), default=0)
        if table.layout or wide < 2:
            self._blocks += [f"\n\n{cell}\n" for row in rows for cell in row if cell]
        elif rows:
            head, *body = rows if table.headed else [[""] * wide, *rows]
            lines = [head, ["---"] * wide, *body]
            text = "\n".join(_row([*row, *[""] * (wide - len(row))]) for row in lines)
            self._write(text)
        self._blocks += rest


class _Table:
    """A table that is being read. `outer`: the blocks before it; `layout`: it only places other things."""

    def __init__(self, outer: list[str]) -> None:
        self.outer = outer
        self.rows: list[list[str]] = []
        self.layout = False
        self.headed = False

    def cell(self, blocks: list[str], *, head: bool) -> list[str]:
        """Take up a cell's content; where the next one's goes."""
        if not self.rows:
            self.rows.append([])
        self.headed |= head and len(self.rows) == 1
        self.rows[-1].append("".join(blocks).strip())
        return []


def _row(cells: Iterable[str]) -> str:
    """A table's row on one line."""
    return f"| {' | '.join(' '.join(c.replace('|', chr(92) + '|').split()) for c in cells)} |"


def _language(tag: Tag) -> str:
    found = re.search(r"(?:^|[\s\"'-])(?:language|lang|highlight-source|brush:\s*)[-:]?\s*([A-Za-z0-9+#]+)", tag.inside)
    return found[1].lower() if found and "class" in tag.inside else ""
