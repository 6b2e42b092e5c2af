"""Agents as programs use them: typed functions, typed output, dependencies, events, sessions that the caller keeps."""

from __future__ import annotations

import asyncio
import functools
import pathlib
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypedDict

import msgspec
import pytest

import noria
from noria.core.content import Usage
from noria.core.errors import UsageError
from noria.core.ports import Answered, Emit, Failure, ModelRequest
from noria.core.state import ModelSpec
from noria.core.transcript import Prompt, Step, Transcript
from noria.testing import ModelServer
from noria.tools.schema import writes


@pytest.fixture(autouse=True)
def _place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own data, configuration and workspace."""
    monkeypatch.setenv("NORIA_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def go(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def last_result(request: ModelRequest) -> str:
    """What the last call came to."""
    [*_, step] = (e for e in request.transcript if isinstance(e, Step))
    return step.results[-1].text


# -- one prompt --------------------------------------------------------------------------------------------------


@pytest.mark.seed("A29", "A33", "V03", "V05")
def test_a_prompt_with_a_tool() -> None:
    """A29 and A33: a history of its own for each run; "2 + 3" is two requests, one call, four messages. V05, noria's
    form: the tools are given to the agent as a list."""
    ran: list[tuple[int, int]] = []

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append((a, b))
        return a + b

    def half(a: float) -> float:
        """Half a number."""
        return a / 2

    model = noria.ScriptedModel([noria.call("add", a=2, b=3), lambda r: f"It is {last_result(r)}.", "Nothing before."])
    agent = noria.Agent(model, tools=[add, half], instructions="You calculate.")
    result = agent.run_sync("2 + 3?")
    assert (result.outcome, result.text, result.output, result.steps) == ("completed", "It is 5.", "It is 5.", 2)
    assert result.usage.requests == len(model.requests) == 2
    assert ran == [(2, 3)]
    assert [m["role"] for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert result.messages[1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":2,"b":3}'}
    assert model.requests[0].system == "You calculate."
    second = agent.run_sync("And before?")
    assert [m["role"] for m in second.messages] == ["user", "assistant"]


@pytest.mark.seed("V02", "V03")
def test_a_direct_answer_an_unknown_tool_and_two_rounds() -> None:
    direct = noria.Agent(noria.ScriptedModel(["Hello."]), tools=[add]).run_sync("Hi")
    assert (direct.text, direct.steps) == ("Hello.", 1)
    unknown = noria.ScriptedModel([noria.call("ad", a=1, b=2), "I see."])
    result = noria.Agent(unknown, tools=[add]).run_sync("1 + 2?")
    assert result.outcome == "completed"
    assert result.messages[2]["content"].startswith("ERROR: unknown tool 'ad'; did you mean add?")
    two = noria.ScriptedModel([noria.call("add", a=1, b=2), noria.call("add", a=3, b=3), lambda r: last_result(r)])
    assert noria.Agent(two, tools=[add]).run_sync("1 + 2 + 3?").text == "6"


@pytest.mark.seed("A32", "V02")
def test_a_single_turn() -> None:
    """A32, noria's form: `max_steps=1` is one round of tools at most; then one more request, which may call none, and
    its text is the answer."""
    model = noria.ScriptedModel([noria.call("add", a=1, b=1), "It is 2."])
    result = noria.Agent(model, tools=[add], max_steps=1).run_sync("1 + 1?")
    assert (result.outcome, result.text, result.output) == ("max_steps", "It is 2.", "It is 2.")
    assert [r.calls for r in model.requests] == ["free", "forbidden"]
    plain = noria.ScriptedModel(["2, of course."])
    assert noria.Agent(plain, tools=[add], max_steps=1).run_sync("1 + 1?").text == "2, of course."
    assert len(plain.requests) == 1


@pytest.mark.seed("A31")
def test_limits_have_defaults() -> None:
    """A31, noria's form: 40 steps unless told otherwise, results of 20,000 bytes; the end is told from an answer by its
    outcome, and the model has the last word."""

    def much(k: int) -> str:
        """Much."""
        return "x" * 100_000

    calls = [noria.call("much", k=k) for k in range(41)]
    model = noria.ScriptedModel([*calls[:40], "That was much."])
    result = noria.Agent(model, tools=[much]).run_sync("go")
    assert (result.outcome, result.text, len(model.requests)) == ("max_steps", "That was much.", 41)
    told = [m["content"] for m in result.messages if m["role"] == "tool"]
    assert all(len(t) <= 20_000 and "left out" in t and "read_file" not in t for t in told)
    few = noria.Agent(noria.ScriptedModel([*calls[:2], "Two."]), tools=[much], max_steps=2).run_sync("go")
    assert (few.outcome, few.text) == ("max_steps", "Two.")


class Plain:
    """A model of a user's own: content, calls and usage, and nothing else."""

    def __init__(self, usage: Usage) -> None:
        self.usage = usage

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """A call, then an answer."""
        first = len(request.transcript) == 1
        said = noria.say("I add.", noria.call("add", a=1, b=2)) if first else noria.say(last_result(request))
        return Answered(said, self.usage)

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """Not asked here."""
        return Failure("internal")

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.seed("I12")
def test_an_answer_is_content_calls_and_usage() -> None:
    """I12: the loop goes by content and calls; usage is counted, and changes nothing of what happens."""
    agent = noria.Agent(Plain(Usage()), tools=[add])
    cheap = agent.run_sync("1 + 2?")
    dear = agent.run_sync("1 + 2?", model=Plain(Usage(1, 900, 90, 10, 5)))
    assert cheap.messages == dear.messages and cheap.text == dear.text == "3"
    assert (dear.usage.requests, dear.usage.input, dear.usage.output) == (2, 1_800, 180)
    assert (cheap.usage.input, cheap.usage.output) == (0, 0)


def test_what_goes_wrong_outside_is_in_the_result() -> None:
    def fails(k: int) -> str:
        """Fails."""
        raise ValueError(f"{k} is a bad number")

    async def fails_too() -> str:
        """Fails, too."""
        raise KeyError("nothing")

    calls = noria.say("", noria.call("fails", k=1), noria.call("fails_too"), noria.call("fails", k="one"))
    agent = noria.Agent(noria.ScriptedModel([calls, "I see."]), tools=[fails, fails_too])
    told = [m["content"] for m in agent.run_sync("go").messages if m["role"] == "tool"]
    assert told == [
        "ERROR: fails failed: ValueError: 1 is a bad number",
        "ERROR: fails_too failed: KeyError: 'nothing'",
        'ERROR: fails: k must be an integer, got "one"',
    ]
    broken = agent.run_sync("go", model=noria.ScriptedModel([Failure("auth", detail="no such key")]))
    assert (broken.outcome, broken.ok) == ("failed", False)
    assert broken.error and broken.error.kind == "auth" and "no such key" in broken.error.message
    with pytest.raises(noria.OutputError, match=r"the run has no output: .*no such key"):
        _ = broken.output


def test_functions_that_are_not_async_work_in_threads() -> None:
    where: list[str] = []

    def slow() -> str:
        """Where it works."""
        where.append(threading.current_thread().name)
        return "done"

    async def quick() -> str:
        """Where it works."""
        where.append(threading.current_thread().name)
        return "done"

    model = noria.ScriptedModel([noria.say("", noria.call("slow"), noria.call("quick")), "Done."])
    assert noria.Agent(model, tools=[slow, quick]).run_sync("go").ok
    assert where[0].startswith("noria-tool") and where[1] == threading.main_thread().name


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.at = 0

    def up(self, by: int = 1) -> int:
        """Count up."""
        self.at += by
        return self.at

    @noria.tool(read_only=True)
    async def told(self, word: str, *, deps: str) -> str:
        """Where it is."""
        return f"{word} {self.at}{deps}"


def test_methods_are_tools() -> None:
    one, two = Counter(), Counter()
    calls = [noria.call("up", by=3), noria.call("told", word="at"), "Done."]
    for counter in (one, two, one):
        agent = noria.Agent(noria.ScriptedModel(calls), tools=[counter.up, counter.told], deps="!")
        told = [m["content"] for m in agent.run_sync("go").messages if m["role"] == "tool"]
        assert told == [str(counter.at), f"at {counter.at}!"]
    assert (one.at, two.at) == (6, 3)
    assert list(one.told.schema["properties"]) == ["word"] and one.told.read_only


# -- mistakes of the caller --------------------------------------------------------------------------------------


def untyped(city) -> str:  # type: ignore[no-untyped-def]
    """The weather."""
    return city


def silent(city: str) -> str:
    return city


def anything(*cities: str) -> str:
    """The weather."""
    return cities[0]


def strange(thing: Plain) -> str:
    """Locks."""
    return str(thing)


def given_by_place(db: noria.Deps[dict[str, str]], key: str) -> str:
    """Looks up."""
    return db[key]


def counting(to: int):  # type: ignore[no-untyped-def]
    """Counts."""
    yield from range(to)


async def counting_later(to: int):  # type: ignore[no-untyped-def]
    """Counts."""
    for number in range(to):
        yield number


class Scale:
    """Weighs."""

    def weigh(self, thing: str) -> str:
        """What it weighs."""
        return f"{thing}: 3 kg"

    def __call__(self, thing: str) -> str:
        """What it weighs."""
        return self.weigh(thing)


class Box(msgspec.Struct):
    inside: Box | None = None


def hold(box: Box) -> str:
    """Holds."""
    return str(box)


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([untyped], "tool untyped: give the argument 'city' a type, such as `city: str`"),
        ([silent], "tool silent: the first line of its docstring says what it does; there is none"),
        ([anything], "anything: .args, ..kwargs and positional-only arguments cannot be offered"),
        ([strange], "tool strange: type <class '.*Plain'> is not supported: use builtin types"),
        ([given_by_place], "tool given_by_place: make db keyword-only: put `., ` before it"),
        ([add, add], "two tools are called add: give one another name"),
        (["add"], "'add' is not a function"),
        ([len], "<built-in function len> is not a function: give name, description and schema too"),
        ([counting], "counting yields: a tool returns its result whole"),
        ([counting_later], "counting_later yields: a tool returns its result whole"),
        ([Scale.weigh], "tool weigh: this is the method of a class: give that of an object, such as `thing.weigh`"),
        ([hold], "tool hold: the type Box holds itself: give the tool a schema of its own"),
        (add, "tools is a list of functions: tools=.weather., not function"),
        ("add", "tools is a list of functions"),
    ],
)
def test_a_function_that_cannot_be_a_tool(tools: list[Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        noria.Agent("chat:m", tools=tools)
    assert "\n" not in str(caught.value)


def test_what_can_be_called_can_be_a_tool() -> None:
    """A bound method, an object that can be called, a function of which a part is filled in."""

    def deliver(thing: str, where: str, how: str = "by cart") -> str:
        """Delivers."""
        return f"{thing} to {where} {how}"

    scale, there = Scale(), functools.partial(deliver, where="Hama", how="by boat")
    model = noria.ScriptedModel(
        [
            [
                noria.call("weigh", thing="a pot"),
                noria.call("Scale", thing="a jar"),
                noria.call("deliver", thing="oil"),
            ],
            "Done.",
        ]
    )
    agent = noria.Agent(model, tools=[scale.weigh, scale, there])
    assert list(agent.tools[2].schema["properties"]) == ["thing"]
    said = [m["content"] for m in agent.run_sync("go").messages if m["role"] == "tool"]
    assert said == ["a pot: 3 kg", "a jar: 3 kg", "oil to Hama by boat"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"permission_mode": "gaol"}, "no permission mode 'gaol': choose one of .*; did you mean goal"),
        ({"instructions": 3}, "instructions is text, not int: 3"),
        ({"hooks": [print]}, "is no hook: write Hook"),
        ({"hooks": print}, "hooks is a list of hooks"),
        ({"approve": True}, "approve is a function that gets an Approval, not bool"),
        ({"max_steps": "3"}, "max_steps is '3': give 1 or more"),
        ({"max_steps": True}, "max_steps is True: give 1 or more"),
        ({"model": None}, "None is no model: give a name like 'chat:gpt-4.1'"),
        ({"model": noria.ScriptedModel}, "ScriptedModel'> is no model"),
    ],
)
def test_what_an_agent_is_made_of_is_checked_where_it_is_made(given: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {"model": "chat:m", **given}
    with pytest.raises(UsageError, match=message) as caught:
        noria.Agent(**whole)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([b"x"], "b'x' is no image: give its bytes and media type"),
        (b"x", "images is a list of pairs"),
        (["x.png"], "'x.png' is no image"),
        ([(b"", "image/png")], "the image of type image/png is empty"),
        ([(b"GIF, or not", "image/gif")], "the image of type image/gif is none that models take"),
    ],
)
def test_an_image_that_is_none_is_refused_before_a_model_sees_it(images: Any, message: str) -> None:
    model = noria.ScriptedModel(["A picture."])
    with pytest.raises(UsageError, match=message):
        noria.Agent(model).run_sync("What is it?", images=images)
    assert model.requests == []


def test_a_script_that_is_none_and_one_that_is_over() -> None:
    for turns, message in ([[3], "a turn is text"], [[["a", 3]], "a turn is text"], [[None], "a turn is text"]):
        with pytest.raises(TypeError, match=message):
            noria.ScriptedModel(turns)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="retry_after is in milliseconds"):
        noria.ScriptedModel([noria.Failure("auth", "no key")])  # type: ignore[arg-type]
    over = noria.Agent(noria.ScriptedModel([])).run_sync("go")
    assert over.error and over.error.message == "the script has 0 turns and was asked for one more"
    assert noria.Agent(noria.ScriptedModel(["", "Here."])).run_sync("go").text == "Here."


def test_other_mistakes_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = noria.Agent("chat:m")  # nothing is read yet: a module may make one
    with pytest.raises(UsageError, match=r"no key for chat:m at .*: set OPENAI_API_KEY"):
        agent.run_sync("hello")
    with pytest.raises(UsageError, match="unknown model m: write chat:m"):
        noria.Agent("m").run_sync("hello")
    with pytest.raises(UsageError, match="max_steps is -1"):
        noria.Agent("chat:m", max_steps=-1)
    with pytest.raises(UsageError, match=r"output: type <class '.*Plain'> is not supported: use str"):
        noria.Agent("chat:m", output=Plain)
    with pytest.raises(UsageError, match="output is no JSON Schema: the type of the schema is"):
        noria.Agent("chat:m", output={"type": "dict"})
    with pytest.raises(UsageError, match="output is no JSON Schema: it has none of its keywords"):
        noria.Agent("chat:m", output={"name": "x"})
    with pytest.raises(UsageError, match=r"MemoryJournal.load\(saved\) makes one"):
        agent.session(journal=b"{}")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="either a name or a journal"):
        agent.session("a", journal=noria.MemoryJournal())
    with pytest.raises(UsageError, match=r"not open yet: write `async with"):
        _ = agent.session().transcript
    with pytest.raises(UsageError, match="a stream needs a running event loop"):
        agent.stream("hello")
    with pytest.raises(UsageError, match="a prompt is text, not int: 5"):
        noria.Agent(noria.ScriptedModel([])).run_sync(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"the workspace .*nowhere does not exist"):
        noria.Agent(noria.ScriptedModel([]), workspace="nowhere").run_sync("hello")

    async def inside() -> None:
        with pytest.raises(UsageError, match=r"write `await agent.run"):
            agent.run_sync("hello")
        stream = agent.stream("hello")  # a stream raises them, too
        with pytest.raises(UsageError, match="no key"):
            async for _ in stream:
                pass
        with pytest.raises(UsageError, match="no key"):
            await stream.result()
        await stream.interrupt()

    go(inside())


# -- typed output ------------------------------------------------------------------------------------------------


class Weather(msgspec.Struct):
    """What the weather is like."""

    city: str
    degrees: int
    sky: Literal["sun", "rain"] = "sun"


@dataclass
class Point:
    """A place."""

    x: int
    y: int


class Pair(TypedDict):
    """Two words."""

    left: str
    right: str


class Tree(msgspec.Struct):
    """Holds itself."""

    name: str
    children: list[Tree] = []


ITEM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("kind", "said", "meant"),
    [
        (Weather, '{"city": "Hama", "degrees": 31}', Weather("Hama", 31)),
        (Weather, '```json\n{"city": "Hama", "degrees": 31, "sky": "rain"}\n```', Weather("Hama", 31, "rain")),
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (Pair, '{"left": "a", "right": "b"}', {"left": "a", "right": "b"}),
        (Tree, '{"name": "a", "children": [{"name": "b"}]}', Tree("a", [Tree("b")])),
        (int, " 42 ", 42),
        (bool, "true", True),
        (list[str], '["a", "b"]', ["a", "b"]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Literal["yes", "no"], "yes", "yes"),
        (Literal["yes", "no"], '"no"', "no"),
        (Point | None, "null", None),
        (ITEM, '{"n": 3}', {"n": 3}),
        ({"type": "array", "items": {"$ref": "#/$defs/i"}, "$defs": {"i": ITEM}}, '[{"n": 3}]', [{"n": 3}]),
        (str, "just words", "just words"),
    ],
)
def test_an_answer_is_read_as_the_type(kind: Any, said: str, meant: object) -> None:
    model = noria.ScriptedModel([said])
    result = noria.Agent(model, output=kind, instructions="Be exact.").run_sync("go")
    assert result.output == meant and type(result.output) is type(meant)
    assert len(model.requests) == 1
    if kind is not str:
        assert model.requests[0].system.startswith("Be exact.\n\nYour final answer must be JSON")
        assert msgspec.json.decode(result.report.json())["output"] == msgspec.to_builtins(meant)


HAMA = '{"city": "Hama", "degrees": 31}'


@pytest.mark.parametrize(
    ("kind", "said", "why", "good"),
    [
        (Weather, '{"city": "Hama", "degrees": "hot"}', "Expected `int`, got `str` - at `$.degrees`", HAMA),
        (Weather, "It is hot.", "JSON is malformed", HAMA),
        (Literal["yes", "no"], "perhaps", "malformed", "yes"),
        (ITEM, '{"n": "x"}', 'answer.n must be an integer, got "x"', '{"n": 1}'),
        (ITEM, '{"n": 1, "m": 2}', 'there is no argument "m"', '{"n": 1}'),
        (int, "7.5", "Expected `int`, got `float`", "7"),
    ],
)
def test_what_does_not_fit_is_asked_for_once_more(kind: Any, said: str, why: str, good: str) -> None:
    model = noria.ScriptedModel([said, good])
    agent = noria.Agent(model, output=kind)
    result = agent.run_sync("go")
    assert result.ok and result.outcome == "completed" and len(model.requests) == 2
    asked = result.transcript[2]
    assert isinstance(asked, Prompt) and asked.source == "hook"
    assert asked.text.startswith("ERROR: your answer does not fit its JSON Schema: ")
    assert why in asked.text and asked.text.endswith("Answer again, with the JSON alone.")
    again = noria.ScriptedModel([said, said, "never asked for"])
    result = agent.run_sync("go", model=again)
    assert (result.outcome, result.ok, len(again.requests)) == ("completed", False, 2)
    with pytest.raises(noria.OutputError, match="does not fit the type that was asked for"):
        _ = result.output
    assert result.text == said


def test_an_answer_in_two_pieces_is_read_as_one() -> None:
    """A reply that was cut at the output limit is gone on with; the JSON is in both."""
    cut = msgspec.structs.replace(noria.say('{"x": 1,'), end="cut")
    result = noria.Agent(noria.ScriptedModel([cut, ' "y": 2}']), output=Point).run_sync("go")
    assert result.output == Point(1, 2)


# -- dependencies ------------------------------------------------------------------------------------------------


@noria.tool(read_only=True)
async def look_up(key: str, *, db: noria.Deps[dict[str, str]]) -> str:
    """Look a word up."""
    return db[key]


@noria.tool(name="count", description="Count the words.", schema={"type": "object"})
def counted(args: dict[str, object], *, deps: dict[str, str]) -> str:
    return str(len(deps))


def install(deps: list[str]) -> str:
    """Install packages."""
    return ",".join(deps)


@pytest.mark.seed("V05")
def test_dependencies_reach_tools_and_no_schema() -> None:
    """An argument that is merely called `deps` is the model's."""
    calls = noria.say("", noria.call("look_up", key="a"), noria.call("count"), noria.call("install", deps=["x", "y"]))
    script = [calls, "Done."]
    agent = noria.Agent(noria.ScriptedModel(script), tools=[look_up, counted, install], deps={"a": "first"})
    assert look_up.schema["properties"] == {"key": {"type": "string"}}
    assert "deps" in agent.tools[2].schema["properties"]

    def told(result: noria.RunResult[str]) -> list[str]:
        return [m["content"] for m in result.messages if m["role"] == "tool"]

    assert told(agent.run_sync("go")) == ["first", "1", "x,y"]
    other = agent.run_sync("go", deps={"a": "second", "b": ""}, model=noria.ScriptedModel(script))
    assert told(other) == ["second", "2", "x,y"]


def test_each_run_has_its_own_dependencies_at_once() -> None:
    async def main() -> None:
        agent = noria.Agent("chat:m", tools=[look_up])

        async def one(n: int) -> str:
            model = noria.ScriptedModel([noria.call("look_up", key="k"), last_result], delay=0.01)
            return (await agent.run("go", deps={"k": f"value {n}"}, model=model)).text

        assert await asyncio.gather(*map(one, range(20))) == [f"value {n}" for n in range(20)]

    go(main())


# -- what may run, and side by side ------------------------------------------------------------------------------


def test_own_tools_run_and_noria_s_are_not_offered(tmp_path: pathlib.Path) -> None:
    (tmp_path / "work/a.txt").write_text("hello")
    script: list[Any] = [
        noria.say("", noria.call("add", a=1, b=1), noria.call("read_file", path="a.txt")), "Done.",
    ]  # fmt: skip

    def statuses(agent: noria.Agent[str]) -> list[str]:
        [step] = [e for e in agent.run_sync("go").transcript if isinstance(e, Step) and e.results]
        return [r.status for r in step.results]

    assert statuses(noria.Agent(noria.ScriptedModel(script), tools=[add])) == ["ok", "error"]
    careful = noria.Agent(noria.ScriptedModel(script), tools=[add], permission_mode="default")
    assert statuses(careful) == ["denied", "error"]
    model = noria.ScriptedModel(script)
    builtin = noria.Agent(model, tools=[add], builtin_tools=True, permission_mode="goal", instructions="Also: add.")
    assert statuses(builtin) == ["ok", "ok"]
    system = model.requests[0].system
    assert system.startswith("You are Noria") and system.endswith("Also: add.") and str(tmp_path / "work") in system
    unasked = noria.Agent(noria.ScriptedModel(script), tools=[add], builtin_tools=True)
    assert statuses(unasked) == ["denied", "ok"]


def test_sessions_do_not_hold_each_other_up_but_one_session_s_calls_do() -> None:
    """A tool that is not read-only runs alone in its session, whatever the others of the process do."""
    now: dict[str, int] = {"a": 0, "b": 0}
    most: dict[str, int] = {"a": 0, "b": 0, "both": 0}

    async def act(who: str) -> str:
        """Acts."""
        now[who] += 1
        most[who] = max(most[who], now[who])
        most["both"] = max(most["both"], sum(now.values()))
        await asyncio.sleep(0.02)
        now[who] -= 1
        return "done"

    async def main() -> None:
        agent = noria.Agent("chat:m", tools=[act])

        async def one(who: str) -> None:
            calls = noria.say("", *(noria.call("act", who=who) for _ in range(5)))
            assert (await agent.run("go", model=noria.ScriptedModel([calls, "Done."]))).ok

        await asyncio.gather(one("a"), one("b"))

    go(main())
    assert most == {"a": 1, "b": 1, "both": 2}


def test_writes_to_one_file_exclude_each_other_across_sessions(tmp_path: pathlib.Path) -> None:
    """What a tool claims holds for all sessions of a workspace: they have one claim table."""
    inside: list[int] = [0]

    @noria.tool(claims=writes("path"))
    async def put(path: str) -> str:
        """Put."""
        inside[0] += 1
        assert inside[0] == 1, "two at once"
        await asyncio.sleep(0.005)
        inside[0] -= 1
        return "put"

    async def main() -> None:
        agent = noria.Agent("chat:m", tools=[put])
        script: Callable[[], list[Any]] = lambda: [noria.call("put", path="a.txt"), last_result]  # noqa: E731
        done = await asyncio.gather(*(agent.run("go", model=noria.ScriptedModel(script())) for _ in range(20)))
        assert [r.text for r in done] == ["put"] * 20

    go(main())


def test_sessions_share_their_connections() -> None:
    """Over HTTP, one after the other: one connection serves them all, and is closed with the event loop."""
    script = [{"text": "", "calls": [["add", {"a": 1, "b": 2}]]}, {"text": "3"}]
    with ModelServer(script) as server:
        agent = noria.Agent(noria.Options(model="chat:m", base_url=server.url), tools=[add])

        async def main() -> None:
            for _ in range(5):
                assert (await agent.run("1 + 2?")).text == "3"
                assert server.open == 1
            answers = await asyncio.gather(*(agent.run("1 + 2?") for _ in range(4)))
            assert [a.text for a in answers] == ["3"] * 4

        go(main())
        go(main())
        assert len(server.requests) == 36
        for _ in range(200):
            if not server.open:
                break
            threading.Event().wait(0.01)
        assert server.open == 0


def test_a_long_history_is_sent_the_same_after_a_rest() -> None:
    """What the model keeps of the history is forgotten at rest: the next request begins with the same bytes."""
    script = [{"text": "", "calls": [["add", {"a": 1, "b": 2}]]}, {"text": "3"}]
    with ModelServer(script) as server:
        agent = noria.Agent(noria.Options(model="chat:m", base_url=server.url), tools=[add], instructions="Add.")

        async def main() -> None:
            async with agent.session() as chat:
                for n in range(3):
                    assert (await chat.run(f"again {n}")).outcome == "completed"

        go(main())
        sent = [r["messages"] for r in server.requests]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
