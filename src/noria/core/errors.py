"""The error tree. It knows nothing of who raises or prints.

NoriaError
├── IllegalValue            a value that must not exist was about to be built (a bug, or damaged data)
│   ├── IllegalReply        a reply that says nothing, or a call whose arguments are not an object
│   └── IllegalTranscript   results that do not pair with their calls, a summary or note in the wrong place
├── IllegalEvent            an event that does not fit the state; it is refused and not journalled
├── UnknownRules            a journal written by rules that this version does not have
├── JournalError            the journal cannot do what was asked
│   ├── SessionBusy         another process writes to this session
│   ├── NoSuchSession       no session of that name or id
│   └── JournalDamaged      a row or snapshot that cannot be read
├── PromptBlocked           a hook did not let a prompt through
├── NotSaved                the disk is full or read-only: the work goes on, unsaved
└── UsageError              what a person asked for cannot be done as asked (exit status 2)
"""

from __future__ import annotations


class NoriaError(Exception):
    """The root: every error that noria raises on purpose is one."""


class IllegalValue(NoriaError, ValueError):
    """A value that must not exist was about to be built."""


class IllegalReply(IllegalValue):
    """A reply that says nothing, or a call whose arguments are not a JSON object."""


class IllegalTranscript(IllegalValue):
    """Results that do not pair with their calls, or an entry in the wrong place."""


class IllegalEvent(NoriaError):
    """The event does not fit the state. Nothing changed; the event must not be journalled."""


class UnknownRules(NoriaError):
    """The rules that wrote a journal are not among those of this version."""


class JournalError(NoriaError):
    """The journal cannot do what was asked."""


class SessionBusy(JournalError):
    """Another process holds the session's lease."""


class NoSuchSession(JournalError):
    """No session has that name or id prefix."""


class JournalDamaged(JournalError):
    """A row or a snapshot cannot be read."""


class NotSaved(NoriaError):
    """The journal could not be written (full disk, read-only folder)."""


class PromptBlocked(NoriaError):
    """A hook did not let a prompt through, or was interrupted while it was asked. The text is one line: which hook, and
    why. Nothing of the prompt was taken up."""


class UsageError(NoriaError):
    """What a person asked for cannot be done as asked. The text is one line: the cause and what to do."""


def words_of(error: BaseException) -> str:
    """The kind of an error and its message, `ValueError: no such row`; also of one whose message cannot be made."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception as worse:  # noqa: BLE001 - the error is anybody's code, and so is what says its message
        return f"{name} (it has no words: {type(worse).__name__})"
