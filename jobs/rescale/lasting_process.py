"""A process that carries out one run after another, so that its workers or Spark need not start again for each run.

The process gets orders over a socket, a line of JSON for each run. When it has written the run's result document, it
sends `END_OF_RUN` through its output, and answers with an empty line over the socket. As for every step, its standard
input is a pipe whose other end only its parent holds (`process`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import msgspec

from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.process import (
    GRACE_SECONDS,
    LAST_LINES_SECONDS,
    end_process_group,
    listening,
    read_result,
    refuse_without_spark,
    start_process,
)
from rescale.runstate.places import places_of
from rescale.runstate.step import Step
from rescale.storage.scratch import ScratchKind, scratch_folder, temporary_directory
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import StoreError
from rescale.ticks import END_OF_RUN, Tick

PrintLine = Callable[[str], None]
DrawTick = Callable[[Tick], None]


class Order(msgspec.Struct, frozen=True):
    """A run to carry out: the URI of its plan, the depth of its proof, and the URI for its result document."""

    plan: str
    proof: Proof
    result: str


class LastingProcess:
    """Handle of a lasting process, which starts with `begin` or with the first order, and ends with the block.

    `say` gets the lines that the process prints, without control characters. With `sends_ticks`, the process also sends
    ticks. `record_bytes` are the bytes of records that the first order moves, or None if they are unknown: they decide
    whether the process starts workers before the order comes. `environment` has the environment variables of the
    process; with None, it inherits those of its parent.
    """

    def __init__(
        self,
        master: str,
        say: PrintLine,
        *,
        sends_ticks: bool = False,
        record_bytes: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        record_arguments = [] if record_bytes is None else ["--records", str(record_bytes)]
        self._arguments = ["--master", master, *record_arguments, *(["--drawn"] if sends_ticks else [])]
        self._environment = environment
        self._default_say = self._say = say
        self._draw: DrawTick | None = None
        self._all_lines_came = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._exit_stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit_stack.close()

    def begin(self) -> None:
        """Start the process unless it runs, so that it is ready when the first order comes."""
        if self._process is None or self._process.poll() is not None:
            self._process, self._socket = self._start()

    def move(
        self,
        plan: Plan,
        proof: Proof,
        say: PrintLine | None = None,
        draw: DrawTick | None = None,
        meanwhile: Callable[[], str] | None = None,
    ) -> None:
        """Move and validate the state of a claimed plan; the other arguments are those of `carry_out`."""
        with scratch_folder(Path(temporary_directory()), ScratchKind.RESULT) as directory:
            # The result is in a subdirectory, because the store puts temporary files beside the directory of a file.
            order = Order(places_of(plan).plan, proof, str(directory / "step" / "result.json"))
            self.carry_out(order, say, draw, meanwhile)

    def end(self) -> None:
        """End the process and its current run. The next run starts a new process."""
        if self._process is not None:
            end_process_group(self._process)

    def carry_out(
        self,
        order: Order,
        say: PrintLine | None = None,
        draw: DrawTick | None = None,
        meanwhile: Callable[[], str] | None = None,
    ) -> None:
        """Carry out a run. Meanwhile `say` gets the lines of the process, and `draw` its ticks.

        After the run has begun, `meanwhile` is called, and `say` gets the line that it returns.

        Raises the error with which the run ended, or `StoreError` if the process ends before it has answered.
        """
        self.begin()
        assert self._process is not None
        assert self._socket is not None
        self._say, self._draw = say or self._default_say, draw
        self._all_lines_came.clear()
        try:
            has_answered = self._send_and_wait(self._socket, order, meanwhile)
            if has_answered:  # the last lines may still be in the pipe
                self._all_lines_came.wait(LAST_LINES_SECONDS)
        except BaseException:
            end_process_group(self._process)
            raise
        finally:
            self._say, self._draw = self._default_say, None
        if not has_answered:
            exit_code = self._process.wait()
            raise StoreError(
                f"the process of the step {Step.ROUNDS.value!r} ended without a result",
                found=f"exit code {exit_code}",
                advice=Advice("look at its output above (out of memory?), then ", SAME_COMMAND, ": it resumes"),
            )
        read_result(order.result)

    def _send_and_wait(self, connection: socket.socket, order: Order, meanwhile: Callable[[], str] | None) -> bool:
        """Send an order, wait for the answer, and return whether it came; False if the process ended first."""
        try:
            connection.sendall(msgspec.json.encode(order) + b"\n")
            if meanwhile is not None:
                self._say(meanwhile())
            return bool(connection.recv(1))
        except (BrokenPipeError, ConnectionResetError):
            return False

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        refuse_without_spark()
        own_end, process_end = socket.socketpair()
        self._exit_stack.enter_context(own_end)
        with process_end:
            module_arguments = [Step.ROUNDS.value, "--orders", str(process_end.fileno()), *self._arguments]
            environment = os.environ if self._environment is None else self._environment
            process = start_process(
                module_arguments, environment, captures_output=True, pass_fds=[process_end.fileno()]
            )
        self._exit_stack.enter_context(listening(process, lambda line: self._say(line), self._pass_on_tick))
        self._exit_stack.callback(_end_gently, process, own_end)
        return process, own_end

    def _pass_on_tick(self, tick: Tick) -> None:
        if tick == END_OF_RUN:
            self._all_lines_came.set()
        elif self._draw is not None:
            self._draw(tick)


def _end_gently(process: subprocess.Popen[bytes], orders: socket.socket) -> None:
    """Close the socket of orders, so that the process stops Spark and ends; after `GRACE_SECONDS`, kill the process."""
    orders.close()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        end_process_group(process)
    if process.stdin is not None:
        process.stdin.close()
