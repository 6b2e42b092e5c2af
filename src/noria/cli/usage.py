"""The help text, and writing to a standard output that may be closed. Imports nothing before it is needed."""

USAGE = """\
usage: noria [PROMPT] [flags]        talk at a terminal, line by line
       noria -p [PROMPT] [flags]     do a job and stop; the prompt is the argument, stdin, or both
       noria demo [--model ...]      the main job on a small broken project, with no key
       noria doctor                  what is configured, what is missing; makes one real call
       noria config show|check|explain KEY
       noria sessions list [--all] | show ID | export ID [-o FILE] | undo ID
       noria models [--all] [--json] the models that are configured, those that this machine serves; all: the catalogue
       noria trust [DIR] | list | remove [DIR]   what a workspace's own .noria asks for may be done
       noria hooks [--json]          what is run at which event, from where, and whether it is
       noria mcp [--json]            the MCP servers, each started: whether it is there, its tools, what is wrong
       noria tools [--json]          the tools, what becomes of each in the permission mode, why one is not offered
       noria agents [--json]         the agents that a task may be given to, from where, what is wrong with one
       noria COMMAND                 skills acp serve worker batch cron
                                     (not built yet)

model
  --model NAME | DIALECT:NAME        chat: (any OpenAI-compatible server), responses: (OpenAI), messages: (Anthropic),
                                     gemini: (Google)
  --fallback-model NAME              another, if that one cannot answer (repeatable)
  --base-url URL                     http://127.0.0.1:8000/v1; else OPENAI_BASE_URL, ANTHROPIC_BASE_URL,
                                     GOOGLE_GEMINI_BASE_URL
input and output
  --output-format text|json|stream-json
  --input-format text|stream-json    prompts, decisions and interrupts as lines on stdin
  --json-schema FILE                 the final answer must fit it
  --image FILE                       goes with the prompt (repeatable); @path in a prompt names files too
  -o FILE                            the last message, into a file as well
  --system-prompt FILE               instead of the built-in text
  --append-system-prompt TEXT        after it
what may run
  --permission-mode default|accept-edits|plan|goal|debug
  --on-ask deny|pause                where nobody can be asked; pause ends with status 4
  --allow RULE  --ask RULE  --deny RULE    like "run_command(git log *)" (repeatable); deny beats ask beats allow
  --tools NAME,NAME                  only these
  --sandbox auto|strict|off          around commands; auto: where the machine can, strict: refuse to run without
  --workspace DIR                    the folder to work in (default: this one)
  --add-dir DIR                      a folder beside it that counts as inside (repeatable)
  --mcp-config FILE                  MCP servers beside those of config.toml, as {"mcpServers": {...}}
limits of a turn
  --max-steps N  --max-tokens N  --max-cost USD  --max-time SECONDS
session
  -c, --continue                     go on with the workspace's latest session
  --resume ID                        with that one (any unique beginning of its id)
  --session NAME                     with the workspace's session of that name, or a new one
  --fork ID                          with a copy of that one
  --no-session                       keep nothing
  --config FILE                      instead of the user's config.toml
  --trust                            read the workspace's own .noria this once, which may name commands
  --debug FILE                       a log of events and requests, their sizes and times
  --version  --help
not built yet
  --agent NAME

exit status: 0 completed, 1 failed, 2 usage or configuration, 3 a limit, 4 requires action, 130 interrupted,
143 terminated. Keys come from OPENAI_API_KEY, ANTHROPIC_API_KEY or config.toml. Only the answer is on stdout.
"""


def show(text: str) -> bool:
    """Writes `text` to stdout, as UTF-8. False where nobody reads there any more: a closed pipe is no error.
    Raises NoriaError where it cannot be written for another reason (a full disk)."""
    import sys

    if sys.stdout is None:
        return False
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.flush()
    except OSError as error:
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains when it flushes at its end
        if isinstance(error, BrokenPipeError):
            return False
        from noria.core.errors import NoriaError

        raise NoriaError(f"the answer could not be written to stdout: {error.strerror}") from None
    return True
