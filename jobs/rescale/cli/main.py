"""`rescale`: the commands put together, errors turned into exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from io import TextIOWrapper
from itertools import pairwise

from rescale.cli.output import Output, into_the_void, unwritten
from rescale.cli.parser import Formatter, Parser
from rescale.errors import RequestError, StoreError, unexpected

_THE_WAY = """\
What is in the snapshot?

  rescale inspect s3://flink/savepoint-1a2b

What would a rescale do? This moves nothing.

  rescale plan s3://flink/savepoint-1a2b --target s3://flink/new --parallelism 6

Move all state, prove that it is all there, and publish the result.

  rescale run s3://flink/savepoint-1a2b --target s3://flink/new --parallelism 6

Compare a published result with its source once more.

  rescale validate s3://flink/savepoint-1a2b s3://flink/new
"""

_GUIDE = f"""\
Rescale changes the shape of a Flink job's state while the job is stopped.

{_THE_WAY}
A path will do, too. All commands: rescale --help; one of them: rescale run
--help; all of it at work on this machine: rescale demo
"""

_EPILOG = f"""\
{_THE_WAY}
The source is never modified. A run that was interrupted is resumed by the same command; `rescale discard` removes
what it left instead.

Exit codes: 0 done; 2 the request cannot be met as it stands, or the target is taken; 3 the snapshot is damaged, has
changed or is not supported, or the store is not; 4 the result is not what it must be (a run publishes nothing then),
two snapshots differ, or an operator has no match; 5 a fault of Rescale itself, with its traceback; 130 interrupted
(Ctrl-C), 143 by SIGTERM; 1 anything that may pass, worth another try.

S3 is configured by the standard variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION.
"""


def parser() -> argparse.ArgumentParser:
    """The whole command line.

    The commands are imported here, most of what a start takes: where Ctrl-C ends that, it is answered like any other.
    """
    from rescale.cli.commands import demo, diff, discard, inspect, match, plan, report, run, validate, virtual_keys

    common = Parser(add_help=False)
    common.add_argument(
        "--output", choices=("text", "json"), default="text", help="how to answer (default: %(default)s)"
    )
    root = Parser(
        prog="rescale",
        description="Change the shape of a Flink job's state while the job is stopped.",
        epilog=_EPILOG,
        formatter_class=Formatter,
    )
    root.add_argument("--version", action="version", version=f"rescale {version('rescale')}")
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    for command in (inspect, match, plan, run, validate, report, diff, discard, demo, virtual_keys):
        name = command.__name__.rpartition(".")[2].replace("_", "-")
        sub = commands.add_parser(
            name,
            parents=[common],
            help=command.SUMMARY,
            description=command.DESCRIPTION,
            epilog=f"For example:\n\n  {command.EXAMPLE}",
            formatter_class=Formatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(execute=command.execute, resumes=getattr(command, "RESUMES", False))
    return root


def main(words: Sequence[str] | None = None) -> int:
    _open_what_was_closed()
    if isinstance(sys.stdout, TextIOWrapper):  # it may not know the signs of tables, such as an arrow
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if words is None else words
    if "_ARGCOMPLETE" in os.environ:
        from rescale.cli.completion import complete  # for whom the shell alone asks

        complete(parser())
    if not words:
        print(_GUIDE, end="", file=sys.stderr)
        return RequestError.exit_code
    try:
        code = _answered(words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output went away
        into_the_void(sys.stdout)
        into_the_void(sys.stderr)
        return StoreError.exit_code
    except OSError as error:
        full = unwritten(error)
        print(f"error: {full}", file=sys.stderr)
        return full.exit_code
    return code


def _open_what_was_closed() -> None:
    """What is printed would go into whichever file gets the number of a stream that whoever starts this has closed."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115


def _answered(words: Sequence[str]) -> int:
    output, resumes = Output("json" if _asks_for_json(words) else "text"), False
    try:
        _refuse_other_bytes(words)
        arguments = parser().parse_args(words)
        resumes = arguments.resumes
        return int(arguments.execute(arguments, output) or 0)
    except BrokenPipeError:
        raise
    except Exception as error:
        ours = unexpected(error)
        output.error(ours)
        return ours.exit_code
    except KeyboardInterrupt as how:
        return output.interrupted(how, resumes=resumes)


def _refuse_other_bytes(words: Sequence[str]) -> None:
    """Python stands in for bytes that are not UTF-8 (a terminal may write Latin-1): nobody could write that down."""
    for word in words:
        if not word.isascii() and any("\ud800" <= sign <= "\udfff" for sign in word):
            raise RequestError(
                "an argument is not UTF-8",
                found=ascii(word),
                advice="have the terminal, or what writes the command, use UTF-8; give files other names",
            )


def _asks_for_json(words: Sequence[str]) -> bool:
    """Whether errors are to be JSON, known before the words are parsed (they may be what is wrong)."""
    return "--output=json" in words or ("--output", "json") in pairwise(words)


if __name__ == "__main__":
    sys.exit(main())
