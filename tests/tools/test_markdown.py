"""HTML as Markdown: what is kept of a page and how it is written, and that no page takes long."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.tools.markdown import markdown
from noria.tools.tags import Tag, tags

LONG = "word " * 60


@pytest.mark.seed("E14")
@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("<h1>A</h1><p>b</p><h3>c</h3>d", "# A\n\nb\n\n### c\n\nd"),
        ("a<br>b<br/>\n c", "a\nb\nc"),
        ("<p>a  \n b<p>c", "a b\n\nc"),
        ("<b>bold</b> and <em>so </em>on <del>x</del>", "**bold** and *so* on ~~x~~"),
        ("a<b> </b>c", "a c"),
        ("<ul><li>one<li>two<ul><li>deep</ul><li>three</ul>after", "- one\n- two\n  - deep\n- three\n\nafter"),
        ('<ol start="3"><li>x</li><li>y<p>more</p></li></ol>', "3. x\n4. y\n\n  more"),
        ("<blockquote>a<br>b<p>c</blockquote>", "> a\n> b\n\n> c"),
        ("<dl><dt>T<dd>one<dd>two</dl>", "T\n\n: one\n: two"),
        ("<p>x</p><hr><p>y</p>", "x\n\n---\n\ny"),
        ("use <code>a = `b`</code> or <kbd>Ctrl</kbd>", "use `` a = `b` `` or `Ctrl`"),
        ("<pre>\n  a\n\n\tb &lt; c\n</pre>", "```\n  a\n\n\tb < c\n```"),
        ('<pre><code class="language-Python">x</code></pre>', "```python\nx\n```"),
        ('<div class="highlight-source-shell"><pre class="x">ls</pre></div>', "```\nls\n```"),
        ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
        ("<p>a &amp; b &lt;c&gt; &eacute; &#8364; &nosuch;</p>", "a & b <c> é € &nosuch;"),
        ("<p>1 < 2 and a<b c", "1 < 2 and a"),
        ('<a href="/x y">link</a> <a href="https://e.org/">https://e.org/</a>',
         "[link](http://h/x%20y) <https://e.org/>"),
        ('<a href="javascript:alert(1)">x</a> <a href="#top">top</a> <a>y</a>', "x top y"),
        ('<h2>T <a href="#t">¶</a></h2>', "## T"),
        ('<a href=x><b>a</b> b</a>', "[**a** b](http://h/p/x)"),
        ('<img src=a.png alt="a  picture"><img src=b.png><img src="data:x" alt=d>',
         "![a picture](http://h/p/a.png)[image: d]"),
        ("<table><tr><th>A<th>B<tr><td>1|2<td><b>x</b><br>y</table>", "| A | B |\n| --- | --- |\n| 1\\|2 | **x** y |"),
        ("<table><tr><td>1<td>2</table>", "|  |  |\n| --- | --- |\n| 1 | 2 |"),
        ("<table><tr><td>only</td></tr><tr><td><p>this</p></td></tr></table>", "only\n\nthis"),
        ("<table><tr><td>a</td><td><table><tr><td>b<td>c</table></td></table>",
         "a\n\n|  |  |\n| --- | --- |\n| b | c |"),
        ("<p>x</p><script>if (a < b) { '</p>' }</script><style>p{}</style><p>y</p>", "x\n\ny"),
        ("<p>x</p><script>never closed <p>y", "x"),
        ("<!-- <p>no --><p>yes<!-- open <p>no", "yes"),
        ("<p hidden>no</p><p style='display: none'>no</p><p aria-hidden=true>no</p><p>yes</p>", "yes"),
        ("<nav>menu</nav><p>text</p><footer>foot</footer><aside>side</aside>", "text"),
        ("<nav>only a menu</nav>", "only a menu"),
        ("<title>The  title</title><p>x", "# The title\n\nx"),
        ("<title>The title</title><h1>Head</h1>", "# Head"),
        ("<form><label>Name</label><input value=x><button>Go</button></form>", "Name"),
        ("<q>said</q>", '"said"'),
        ("", ""),
        ("</p></div><p>x</b></p>", "x"),
    ],
)  # fmt: skip
def test_pages(page: str, written: str) -> None:
    assert markdown(page, "http://h/p/q") == written


@pytest.mark.parametrize(
    "page",
    [
        f"<p>around</p><main><p>{LONG}</p></main><p>below</p>",
        f"<p>around</p><div role='main'><p>{LONG}</p></div><p>below</p>",
        f"<p>around</p><article><p>{LONG}</p></article><p>below</p>",
    ],
)
def test_the_main_part_is_what_is_kept(page: str) -> None:
    assert markdown(page) == LONG.strip()


def test_a_main_part_that_is_not_all_is_not_believed() -> None:
    assert LONG.strip() in markdown(f"<main>Loading</main><div>{LONG * 4}</div>")
    assert markdown("<main><p>Short, but all there is</p></main><p>x</p>") == "Short, but all there is"
    assert markdown(f"<article>{LONG}</article><article>two</article>").endswith("two")


def test_without_links_their_texts_stay() -> None:
    assert markdown('<a href="/x">a</a> <img src=y alt=b>', "http://h/", links=False) == "a [image: b]"


def test_tags() -> None:
    page = "a<B c='x>y' d=\"&amp;\" e=f g>h</b ><br/><!doctype x><?php ?><>"
    assert [t for t in tags(page) if t.inside != ""] == [
        Tag("", "a"), Tag("b", " c='x>y' d=\"&amp;\" e=f g"), Tag("", "h"), Tag("b", " ", True), Tag("br", "/"),
        Tag("", "<"), Tag("", ">"),
    ]  # fmt: skip
    assert Tag("x", " A=1 a=2 b='é&lt;' c").attributes() == {"a": "1", "b": "é<", "c": ""}


HOSTILE = [
    "<", "<a ", '<a b="', "<a b='", "<!--", "<b>", "<ul><li>", "</p>", "<table><tr><td>", "<script>", "&", "<pre>",
    "<blockquote>", "<a href=x>", "<a b='c\"", "<title>", "`", "<li>" + "<b>" * 50,
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_page_takes_long(piece: str) -> None:
    """Time grows with the page: half a megabyte of what is worst for a reader of broken pages."""
    page = piece * (500_000 // len(piece))
    begun = time.monotonic()
    markdown(page, "http://h/")
    assert time.monotonic() - begun < 20


@given(st.lists(st.sampled_from([*HOSTILE, "text", " ", "</a>", "</ul>", "</table>", "</pre>", "<p>", "&lt;", "</main>",
                                 "<main>", "<nav>", "</nav>", "\n", "é"]), max_size=40))  # fmt: skip
def test_any_page_is_written(pieces: list[str]) -> None:
    written = markdown("".join(pieces), "http://h/")
    assert written == written.strip() and "\0" not in written and "\n\n\n\n" not in written.replace("```", "")
