"""The server that forks worker processes: it has no threads, and has loaded the modules that workers use.

The driver does not fork: it has threads, and a child may inherit locks that no thread will ever release. The driver
starts the server as another program, and sends it requests over a socket. When the driver ends, even by SIGKILL, its
end of the socket is closed, and the server ends, too.

    request:  kind:u8 number:i64   FORK: number of the worker, with the descriptor of its connection
                                   WAIT: process id of the worker to wait for
    answer:   number:i64           FORK: process id, or the negative number of the error with which fork(2) failed
                                   WAIT: exit code, negative for a signal
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, Pipe

import numpy as np

from rescale.execution.progress import say_compiling
from rescale.execution.tasks.allocator import ALLOCATOR_VARIABLES
from rescale.execution.tasks.worker import serve
from rescale.flink.compiling import listen_once
from rescale.storage.scratch import scratch_directories

_REQUEST, _ANSWER = struct.Struct("<cq"), struct.Struct("<q")
_FORK, _WAIT = b"f", b"w"

_COMMON_MODULES = (
    "rescale.execution.steps",
    "rescale.execution.tasks.processes",
    "rescale.execution.rekeying.key_order_loop",
    "rescale.execution.rekeying.sort_loop",
    "rescale.execution.sources.change_loop",
    "rescale.execution.writers.canonical.framing_loop",
    "rescale.execution.compare.validation.counting_loop",
    "rescale.flink.keyed.blocks.block_loop",
    "rescale.flink.keyed.blocks.digest_loop",
    "rescale.flink.keyed.blocks.id_loop",
    "rescale.flink.keyed.blocks.key_sort_loop",
    "rescale.flink.keyed.blocks.record_walk",
    "rescale.flink.keys.machine",
    "rescale.flink.keys.murmur",
    "rescale.rocksdb.engine.changes.entry_loop",
)
"""Modules that most workers use: the steps, and the loops that the steps load when they need them.

`load_common_loops` loads the machine code of the loops in advance. For a loop that calls functions of a library, the
library would have to be loaded first: no loop here does.
"""


class WorkerServer:
    """The driver's side of the server that forks workers. The server process starts with this object.

    Its workers have `environment`, and import modules from the same path as this process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._control, server_end = socket.socketpair()
        mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # Ctrl-C must not end the server
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(server_end.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=[server_end.fileno()],
                env={
                    **environment,
                    **ALLOCATOR_VARIABLES,
                    "OPENBLAS_NUM_THREADS": "1",
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "PYTHONSAFEPATH": "1",
                },
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)
            server_end.close()

    def fork(self, worker_number: int) -> tuple[int, Connection]:
        """Return the process id of a new worker, and the connection to it.

        Raises `OSError` if the system has no room for another process, or if the server is gone.
        """
        own_end, worker_end = Pipe()
        try:
            with worker_end:
                socket.send_fds(self._control, [_REQUEST.pack(_FORK, worker_number)], [worker_end.fileno()])
                if (pid := self._receive_answer()) < 0:
                    raise OSError(-pid, os.strerror(-pid))
                return pid, own_end
        except BaseException:
            own_end.close()
            raise

    def exit_code(self, pid: int) -> int:
        """Wait until a worker ends; return its exit code. Call this only once for each worker.

        Raises `OSError` if the server is gone.
        """
        self._control.sendall(_REQUEST.pack(_WAIT, pid))
        return self._receive_answer()

    def close(self) -> None:
        """End the server, but not its workers."""
        self._process.kill()
        self._process.wait()
        self._control.close()

    def _receive_answer(self) -> int:
        answer = self._control.recv(_ANSWER.size, socket.MSG_WAITALL)
        if len(answer) < _ANSWER.size:
            raise ConnectionError("the server of the workers is gone")
        number: int
        (number,) = _ANSWER.unpack(answer)
        return number


def load_worker_modules() -> None:
    """Import the modules that read and write records, and call a compiled loop; this takes almost a second in all.

    Numba sets itself up in the first call of a loop, so processes that are forked later need not do it. The garbage
    collector is off meanwhile, and never scans the loaded objects: it would add a fifth to the time, and free nothing.
    """
    gc.disable()
    try:
        for module in _COMMON_MODULES:
            import_module(module)
        from rescale.flink.keys.murmur import fill_key_groups

        fill_key_groups(np.zeros(1, np.int32), 1, np.zeros(1, np.int32))
        gc.freeze()
    finally:
        gc.enable()


def load_common_loops() -> None:
    """Load the machine code of the loops in `_COMMON_MODULES`, in 0.25 s; meant for a process that only waits."""
    from rescale.flink.compiled import load_cached_loops

    load_cached_loops(_COMMON_MODULES)


def main(control: socket.socket) -> None:
    """Answer requests until the driver closes its end of the socket."""
    load_worker_modules()
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, _REQUEST.size, 1)
        if len(request) < _REQUEST.size:
            return
        request_kind, number = _REQUEST.unpack(request)
        if request_kind == _FORK:
            (descriptor,) = descriptors
            try:
                pid = os.fork()
            except OSError as error:
                pid = -(error.errno or 1)
            if pid == 0:
                _run_worker(number, descriptor, control)
            os.close(descriptor)
            control.sendall(_ANSWER.pack(pid))
        else:
            control.sendall(_ANSWER.pack(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])))


def _run_worker(worker_number: int, descriptor: int, control: socket.socket) -> None:
    """Work as worker `worker_number`, then exit.

    Only worker 0 reports that loops are compiled. Workers with consecutive numbers prefer different scratch
    directories, if there are several.
    """
    exit_code = 1
    try:
        control.close()
        if worker_number == 0:
            listen_once(say_compiling)
        directories = scratch_directories()
        first_directory = worker_number % len(directories)
        os.environ["SPARK_LOCAL_DIRS"] = ",".join([*directories[first_directory:], *directories[:first_directory]])
        serve(Connection(descriptor))
        exit_code = 0
    finally:
        sys.stderr.flush()
        os._exit(exit_code)


if __name__ == "__main__":
    with suppress(ConnectionError):
        main(socket.socket(fileno=int(sys.argv[1])))
