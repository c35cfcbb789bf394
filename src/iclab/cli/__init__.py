"""The command line: `parser` reads the arguments, `commands` does the work, `tables` prints for people."""

from __future__ import annotations

import signal
import sys
import warnings
from typing import Any

from iclab.cli.parser import parser
from iclab.cli.streams import lasting_streams, to_nowhere


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    with lasting_streams():
        try:
            code = _main(arguments)
            sys.stdout.flush()
            return code
        except BrokenPipeError:  # the reader of standard output, such as `head`, has left
            to_nowhere(sys.stdout)
            return 0
        except SystemExit as stop:
            if isinstance(stop.__context__, BrokenPipeError):  # rich has noticed it
                return 0
            raise
        except OSError as error:
            with_name = f"{error.filename}: " if error.filename else "a file or standard output: "
            code = _refuse(f"{with_name}cannot be read or written ({error.strerror or error})")
            _drop_output()
            return code


def _main(arguments: list[str] | None) -> int:
    options = parser().parse_args(arguments)
    warnings.showwarning = _print_warning
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from pydantic import ValidationError  # imported late, so that --help is quick

    from iclab.cli.commands import COMMANDS
    from iclab.config import InputError, explain

    try:
        COMMANDS[options.command](options)
        if options.failed:
            raise options.failed
    except ValidationError as error:
        return _refuse(explain(error))
    except InputError as error:
        return _refuse(str(error), error.exit_code)
    except KeyboardInterrupt:
        kept = "" if options.command == "bench" else "; finished cells are kept, run the same command again to continue"
        print(f"iclab: stopped{kept}", file=sys.stderr)
        return 130
    return 0


def _refuse(message: str, code: int = 2) -> int:
    print(f"iclab: {message}", file=sys.stderr)
    return code


def _drop_output() -> None:
    """Drop what standard output could not take: else the interpreter would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        to_nowhere(sys.stdout)


def _print_warning(message: Warning | str, *rest: Any, **more: Any) -> None:
    print(f"iclab: warning: {message}", file=sys.stderr)
