"""The words for the machine's codes: what the model is told where noria itself speaks. One table for all dialects.

Owns: the texts of results, notes, summaries and placeholders. Must not know: how a dialect sends them. Each text says
what happened and what to do next; the text of a failed result begins `ERROR: `.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from noria.core.content import Code, Image, Result, Text
from noria.core.state import ELIDED_HEAD
from noria.core.transcript import Note, Prompt, Summary

ERROR = "ERROR: "
NO_OUTPUT = "(no output)"
GO_ON = "Go on."  # stands between two replies that a dialect cannot join
BRIDGE = "Understood."  # stands between a tool's message and a user's where a server refuses these as neighbours
NO_TEXT = "(this reply had no text)"
NO_THOUGHT = " "  # where a server demands the thinking of every reply: DeepSeek's refuses an empty one
NOTHING = "(an empty message)"
BELOW = "shown below"
GONE = "left out: its bytes are gone"
NO_IMAGES = "left out: this model takes no images"
NO_DOCUMENTS = "left out: this model takes no documents"
ODD_IMAGE = "left out: this model takes {types}"
LARGE_IMAGE = "left out: this model takes no more than {most:,} bytes: make a smaller copy"
WIDE_IMAGE = (
    "left out: this model takes no more than {widest} pixels on a side: make a smaller copy, or cut it in parts"
)

CODES: dict[Code, str] = {
    "": "",
    "not_started": "Interrupted before this call was started: nothing was done. Make it again if it is still needed.",
    "outcome_unknown": "Interrupted while this call was under way: its outcome is unknown. Find out what it did before "
    "you repeat it.",
    "cut": "The call was cut at the output limit and was not run: nothing was done. Do not send it again as it was; "
    "send it in smaller parts (for a file: write the first part, then add the rest with further calls).",
    "limit": "Not run: a limit of this turn was reached, so no tool can be called any more. Nothing was done.",
    "unanswered": "Not run: the person was asked for permission and said something else instead. Read their message; "
    "do not repeat the call unless it asks for that.",
    "internal": "Noria itself failed before this call was run: nothing was done. Try another way, or once more.",
}

LIMITS = {
    "max_steps": "The limit on steps",
    "max_tokens": "The limit on tokens",
    "max_cost": "The limit on cost",
    "max_time": "The limit on time",
}

MODES = {
    "default": "changes to files and commands are asked about first",
    "accept-edits": "files may be changed without asking; commands are asked about first",
    "plan": "nothing may be changed and no command run; look, and propose a plan",
    "goal": "nobody is asked; work until the goal is reached",
    "debug": "files may not be changed; commands may be run to find the cause",
}


def result_text(result: Result, pictures: str = "") -> str:
    """What a tool message says: the machine's words for the code, then the content. `pictures`: what to say of images
    that are shown elsewhere or not at all."""
    if result.elided:
        return elided(result)
    said = CODES[result.code]
    if result.code == "outcome_unknown" and result.spill:
        said += f" Its output until then is in {result.spill}."
    text = "\n".join(t for t in (said, result.text, pictures) if t)
    if not text.strip():
        return f"{ERROR}{NO_OUTPUT}" if result.status == "error" else NO_OUTPUT
    if result.status == "error" and not text.startswith(ERROR):
        return ERROR + text
    return text


def elided(result: Result) -> str:
    """The line that stands for a result that was elided."""
    error = ERROR if result.status == "error" else ""
    how = f"The whole is in {result.spill}: read it there" if result.spill else "Make the call again"
    return f"{error}[The output was left out here to save space. {how} if it is needed, and only the part that is.]"


def image_note(image: Image, why: str = "") -> str:
    """The text that stands for an image or a document: withheld, as a provider refused it, or for another reason."""
    kind = "document" if image.media_type == "application/pdf" else "image"
    size = f", {image.size:,} bytes" if image.size else ""
    reason = why or "withheld: the provider could not process it"
    return f"[{kind} ({image.media_type}{size}) {reason}]"


def note_text(note: Note) -> str:
    """What a note says, in its marks."""
    return f"<note>\n{_note(note)}\n</note>"


def _note(note: Note) -> str:
    match note.kind:
        case "reminder":
            return (
                f"The last {note.n} steps made the same tool calls and got the same results. Once more will not change "
                "them: try another way, or say what stops you."
            )
        case "go_on":
            return (  # at the output limit, or by an interrupt after which the person wants it to go on
                "Your reply was cut before its end. Go on exactly where it ended; do not repeat what is there."
            )
        case "conclude":
            limit = LIMITS.get(note.word, "A limit")
            return (
                f"{limit} of this turn is reached: no tool can be called any more. Answer now, in text: what was done "
                "and found, and what is left to do."
            )
        case "uncompacted":
            return (
                "The conversation is long and could not be made shorter. Keep what you read small: only the lines and "
                "files that are needed."
            )
        case "mode":
            meaning = MODES.get(note.word, "")
            return f"The permission mode is now {note.word}{': ' + meaning if meaning else ''}."
        case "upgraded":
            return "Noria was replaced by another version; what was open was closed. Check before you repeat anything."
        case _:
            assert_never(note.kind)


def summary_text(summary: Summary) -> str:
    """The summary of what came before, in its marks."""
    return (
        "<summary>\nThe conversation began earlier; this summary stands for its older part. Go on from it, and do not "
        f"speak of it unless asked.\n\n{summary.text}\n</summary>"
    )


def memory_text(memory: str) -> str:
    """The memory retrieved for a prompt, in its marks; it stands before the prompt's text."""
    return f"<memory>\n{memory}\n</memory>"


def picture_label(tool: str) -> str:
    """What stands before the images of a tool's result where they cannot be in it."""
    return f"[images from the result of {tool}]"


def prompt_text(prompt: Prompt, instead: Callable[[Image], str] = image_note) -> str:
    """A prompt as one text: memory, text, and for each image the text that stands for it (`instead`)."""
    if prompt.elided:
        return prompt.text[:ELIDED_HEAD] + "\n[The rest of this message was left out here to save space.]"
    parts = [memory_text(prompt.memory)] if prompt.memory.strip() else []
    parts += [part.text if isinstance(part, Text) else instead(part) for part in prompt.content]
    return "\n\n".join(p for p in parts if p.strip())
