"""`rescale`: the parser of all commands, and the mapping of errors to exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from itertools import pairwise

from rescale.cli.output import Output, output_error
from rescale.cli.parser import Formatter, Parser
from rescale.cli.terminal import print_remark, redirect_to_devnull
from rescale.cli.version import ShowVersion
from rescale.text.advice import About, Advice, Mention
from rescale.text.errors import RequestError, RescaleError, StoreError, error_to_show

_STEPS = """\
Show what is in the snapshot:

  rescale inspect s3://flink/savepoint-1a2b

Show what a rescale would do, without moving anything:

  rescale plan s3://flink/savepoint-1a2b --target s3://flink/new --parallelism 6

Move all state, prove that nothing is lost, and publish the result:

  rescale run s3://flink/savepoint-1a2b --target s3://flink/new --parallelism 6

Compare a published result with its source again:

  rescale validate s3://flink/savepoint-1a2b s3://flink/new
"""

_GUIDE = f"""\
Rescale changes the shape of a Flink job's state between two runs of the job.

{_STEPS}
Local paths work, too. For all commands, see rescale --help; for one of them,
rescale run --help; for a demo on this machine, rescale demo.
"""

_EPILOG = f"""\
{_STEPS}
The source is never modified. The same command resumes an interrupted run; `rescale discard` removes what it left.

Exit codes: 0 done; 1 a temporary error, worth another try; 2 the request cannot be met as it is, or the target is
taken; 3 the snapshot is damaged, has changed or is not supported, or the store is not supported; 4 the result is wrong
(a run does not publish it), two snapshots differ, or an operator has no match; 5 a bug of Rescale, with its traceback;
130 interrupted (Ctrl-C); 143 ended by SIGTERM.

S3 is configured by the standard variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION.
For a source and a target in two stores, accounts or regions: --source-profile and --target-profile.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line.

    The import of all commands takes most of the start-up time, so Ctrl-C must be handled before this call.
    """
    from rescale.cli.commands import (
        demo,
        diff,
        discard,
        doctor,
        follow,
        inspect,
        match,
        plan,
        report,
        run,
        schema,
        validate,
        virtual_keys,
    )

    common_parser = Parser(add_help=False)
    common_parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="format of the answer (default: %(default)s)"
    )
    root_parser = Parser(
        prog="rescale",
        description="Change the shape of a Flink job's state between two runs of the job.",
        epilog=_EPILOG,
        formatter_class=Formatter,
    )
    root_parser.add_argument("--version", action=ShowVersion, help="show the version; in a checkout, with the commit")
    commands = root_parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (
        inspect,
        match,
        plan,
        run,
        follow,
        validate,
        report,
        diff,
        discard,
        doctor,
        demo,
        virtual_keys,
        schema,
    ):
        command_name = command.__name__.rpartition(".")[2].replace("_", "-")
        command_parser = commands.add_parser(
            command_name,
            parents=[common_parser],
            help=command.SUMMARY,
            description=command.DESCRIPTION,
            epilog=f"For example:\n\n  {command.EXAMPLE}",
            formatter_class=Formatter,
        )
        command.add_arguments(command_parser)
        command_parser.set_defaults(execute=command.execute, resumes=getattr(command, "RESUMES", False))
    return root_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with the arguments (default: those of the process); return the exit code."""
    _reopen_standard_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # its encoding may lack characters of tables, such as an arrow
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if arguments is None else arguments
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # only completions need it

        argcomplete.autocomplete(parser())  # prints completions, and ends the process
    if not arguments:
        print_remark(_GUIDE.removesuffix("\n"))
        return RequestError.exit_code
    try:
        exit_code = _execute(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has ended
        redirect_to_devnull(sys.stdout)
        redirect_to_devnull(sys.stderr)
        return StoreError.exit_code
    except OSError as error:
        failure = output_error(error)
        print_remark(f"error: {failure}")
        return failure.exit_code
    return exit_code


def _reopen_standard_streams() -> None:
    """Reopen standard streams that the parent process has closed; else the next opened file would get our output."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115


def _execute(arguments: Sequence[str]) -> int:
    output, resumes = Output("json" if _asks_for_json(arguments) else "text"), False
    arguments_namespace = argparse.Namespace()
    try:
        # The import may fail if the clock is far off (see `as_rescale_error`).
        from rescale.options.profiles import use_profiles

        _refuse_non_utf8(arguments)
        arguments_namespace = parser().parse_args(arguments)
        resumes = arguments_namespace.resumes
        use_profiles(arguments_namespace)
        return int(arguments_namespace.execute(arguments_namespace, output) or 0)
    except BrokenPipeError:
        raise
    except Exception as error:
        rescale_error = error_to_show(error)
        _mark_options_of_other_commands(rescale_error, arguments_namespace)
        output.error(rescale_error)
        return rescale_error.exit_code
    except KeyboardInterrupt as interruption:
        return output.report_interruption(interruption, resumes=resumes)


def _mark_options_of_other_commands(error: RescaleError, parsed: argparse.Namespace) -> None:
    """Mark options in the advice that only other commands have, such as `--moved` in an error of `follow`."""

    def wording(part: Mention) -> str:
        return f"{part.text} (which this command does not have)" if is_of_other_command(part) else part.text

    def is_of_other_command(part: Mention) -> bool:
        return part.about is About.OPTION and part.name.replace("-", "_") not in parsed

    parts = error.advice.parts if isinstance(error.advice, Advice) else ()
    if any(isinstance(part, Mention) and is_of_other_command(part) for part in parts):
        error.reword(wording, str)


def _refuse_non_utf8(arguments: Sequence[str]) -> None:
    """Raise `RequestError` for an argument that is not UTF-8: Python turns its bytes into surrogates."""
    for argument in arguments:
        if not argument.isascii() and any("\ud800" <= character <= "\udfff" for character in argument):
            raise RequestError(
                "an argument is not UTF-8",
                found=ascii(argument),
                advice="use UTF-8 in the terminal, or in the program that writes the command; rename such files",
            )


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Return whether the output is JSON. The arguments are not parsed for this, because they may be wrong."""
    return "--output=json" in arguments or ("--output", "json") in pairwise(arguments)


if __name__ == "__main__":
    sys.exit(main())
