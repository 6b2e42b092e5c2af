"""The entry point: `--version` and `--help` are answered before anything is imported."""

import gc
import sys


def main() -> int:
    """Runs the command line; the exit status."""
    gc.disable()  # what a start loads is no garbage, and looking through it took a tenth of it: see cli/run.py
    argv = sys.argv[1:]
    if argv[:1] in (["--version"], ["--help"], ["-h"]):
        from noria.cli.usage import USAGE, show

        if argv[0] == "--version":
            from noria._version import __version__

            show(f"noria {__version__}\n")
        else:
            show(USAGE)
        return 0
    from noria.cli import early

    early.listen()
    try:
        import datetime  # noqa: F401 - where it is interrupted within msgspec's start, that forgets it, and crashes later

        from noria.cli.main import run

        return run(argv)
    except KeyboardInterrupt as stop:
        return 143 if isinstance(stop, early.Terminated) else 130


if __name__ == "__main__":
    if __spec__ is not None and not sys.flags.safe_path and not __file__.startswith(f"{sys.path[0]}/noria/"):
        del sys.path[0]  # `python -m` looks in the folder it is started in first: the modules there are the workspace's
    sys.exit(main())
