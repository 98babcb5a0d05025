"""Child processes in which RocksDB reads files: a damaged file can crash the child, but not its parent.

A child is forked when none is idle, and serves conversations until its parent ends. So reading a database usually costs
a few messages, but no fork. A conversation runs a generator in the child: the parent sends requests to the generator,
and the generator yields the answers. Arrays in an answer lie in shared memory (`SharedArrays`) and are valid until the
next answer.

A lock that another thread of the parent holds at the fork stays locked in the child forever. An import takes locks, so
a child must not import anything: all that children need is imported before the first fork. New threads of a child must
not get stacks that the parent's threads have used, either (`_give_threads_larger_stacks`).
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, NoReturn

import numpy.ma  # noqa: F401 - numba imports it with the first call of a loop, which may be in a child

from rescale.flink.keyed.blocks.record_marks import LARGEST_RECORD_SIZE
from rescale.rocksdb.engine.library import LOADING_LOCK, library
from rescale.rocksdb.engine.shared_arrays import SharedArrays
from rescale.text.errors import RescaleError, as_rescale_error
from rescale.text.names import signal_name

ChildTask = Generator[Any, Any, None]

_MEMORY_BYTES = 6 * LARGEST_RECORD_SIZE
"""Bytes by which a child's memory may grow after the fork: RocksDB holds several copies of the largest row."""

_BASE_SECONDS, _SLOWEST_BYTES_PER_SECOND = 600, 1_000_000
"""Time limit of an answer: `_BASE_SECONDS`, plus the time to read all files at `_SLOWEST_BYTES_PER_SECOND`."""

_ADDED_STACK_BYTES = 1024 * 1024
_THREAD_ATTRIBUTES_BYTES = 128
"""Room for a `pthread_attr_t`, which takes 56 bytes on x86-64 and 64 on ARM."""

_EXTERNAL_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
_CRASH_SIGNALS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)

_idle_children: list[Child] = []
_busy_children: set[Child] = set()
"""References to busy children, so that the garbage collector closes no connection that is being read."""
os.register_at_fork(
    after_in_child=_idle_children.clear
)  # a forked process must not use the idle children of its parent


class ChildEnded(Exception):  # noqa: N818
    """The child ended without an answer. This error never leaves the package."""

    def __init__(self, exit_text: str, *, was_killed: bool) -> None:
        super().__init__(exit_text)
        self.was_killed = was_killed
        """Whether another process, or this one after the time limit, killed the child: then no file is to blame."""


class Conversation:
    """Conversation with a child about files that have `size` bytes in total."""

    def __init__(self, child: Child, size: int) -> None:
        self._child = child
        self._seconds = _BASE_SECONDS + size // _SLOWEST_BYTES_PER_SECOND
        self._is_over = False

    def ask(self, request: Any) -> Any:
        """Send a request to the generator in the child, and return its next answer.

        Raises the error that ended the generator, or `ChildEnded` if the child ended.
        """
        self._is_over = True
        answer, error = self._child.send_and_receive(request, self._seconds)
        if error is not None:
            raise error
        self._is_over = False
        return answer

    def end(self) -> None:
        """Close the generator, unless it has ended or still owes an answer."""
        if not self._is_over:
            self.ask(None)


@contextmanager
def conversation(start: Callable[..., ChildTask], *arguments: Any, size: int) -> Iterator[Conversation]:
    """Provide a conversation with the generator `start(arrays, *arguments)` in a child process, until the block ends.

    `size` is the total size of the files that the generator reads, in bytes. The generator's first answer is dropped.
    Requests and answers must be picklable, and a request must not be None.
    """
    child = _idle_or_new_child()
    try:
        new_conversation = Conversation(child, size)
        new_conversation.ask((start, arguments))
        try:
            yield new_conversation
        except BaseException:
            with suppress(ChildEnded, RescaleError):  # the block's own error is the one to report
                new_conversation.end()
            raise
        new_conversation.end()
    finally:
        child.release()


def _idle_or_new_child() -> Child:
    try:
        child = _idle_children.pop()
    except IndexError:
        child = Child()
    _busy_children.add(child)
    return child


class Child:
    """Child process that is forked from this one, so that all libraries are loaded in it."""

    def __init__(self) -> None:
        with LOADING_LOCK:
            library()
            self._arrays = SharedArrays()
            self._connection, child_end = Pipe()
            with _compiler_lock():
                self.pid = os.fork()
            if self.pid == 0:
                _serve(child_end, self._arrays)
            child_end.close()
        self._has_ended = False
        self._owes_an_answer = False

    def send_and_receive(self, request: Any, seconds: float) -> tuple[Any, RescaleError | None]:
        self._owes_an_answer = True
        try:
            self._connection.send_bytes(self._arrays.packed(request))
            if not self._connection.poll(seconds):
                os.kill(self.pid, signal.SIGKILL)
                self._wait_for_end()
                raise ChildEnded(f"no answer in {seconds} s", was_killed=True)
            answer: tuple[Any, RescaleError | None] = self._arrays.unpacked(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._wait_for_end() from None
        self._owes_an_answer = False
        return answer

    def release(self) -> None:
        """Keep the child for the next conversation; end it instead if it owes an answer or uses much shared memory."""
        _busy_children.discard(self)
        if self._owes_an_answer or self._arrays.is_large:
            self.close()
        else:
            _idle_children.append(self)

    def close(self) -> None:
        """Kill the child at once."""
        if not self._has_ended:
            os.kill(self.pid, signal.SIGKILL)
            self._wait_for_end()
        self._connection.close()
        self._arrays.close()

    def _wait_for_end(self) -> ChildEnded:
        _, status = os.waitpid(self.pid, 0)
        self._has_ended = True
        exit_code = os.waitstatus_to_exitcode(status)
        exit_text = signal_name(-exit_code) if exit_code < 0 else f"exit code {exit_code}"
        return ChildEnded(exit_text, was_killed=-exit_code in _EXTERNAL_SIGNALS)


def _compiler_lock() -> AbstractContextManager[Any]:
    """Return numba's compiler lock, to be held while forking.

    A fork copies only the calling thread: a lock that another thread holds would stay locked in the child forever.
    """
    if "numba" not in sys.modules:
        return nullcontext()
    from numba.core.compiler_lock import global_compiler_lock

    return global_compiler_lock


def _serve(connection: Connection, arrays: SharedArrays) -> NoReturn:
    """Run the child: hold conversations until the parent closes the connection, then exit."""
    exit_code = 1
    try:
        gc.disable()  # a garbage collection could close the parent's connections
        for signal_number in (signal.SIGTERM, signal.SIGHUP, *_CRASH_SIGNALS):
            signal.signal(signal_number, signal.SIG_DFL)
        # A terminal sends Ctrl-C to parent and child; the parent handles it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _close_all_but({0, 1, 2, connection.fileno(), arrays.descriptor})
        _limit_memory()
        _give_threads_larger_stacks()
        threading.Thread(target=_exit_with_parent, args=(connection.fileno(),), daemon=True).start()
        with suppress(EOFError, OSError):
            while True:
                _converse(connection, arrays)
        exit_code = 0
    finally:
        os._exit(exit_code)


def _converse(connection: Connection, arrays: SharedArrays) -> None:
    start, arguments = arrays.unpacked(connection.recv_bytes())
    try:
        task: ChildTask = start(arrays, *arguments)
        request = None
        while True:
            answer = task.send(request)
            connection.send_bytes(arrays.packed((answer, None)))
            request = arrays.unpacked(connection.recv_bytes())
            if request is None:
                task.close()
                connection.send_bytes(arrays.packed((None, None)))
                return
    except Exception as error:
        connection.send_bytes(arrays.packed((None, as_rescale_error(error))))


def _close_all_but(kept_descriptors: set[int]) -> None:
    """Close all inherited descriptors except the kept ones.

    A copy of another child's connection would keep that connection open, so that child would not notice when the parent
    ends.
    """
    for path in list(Path("/dev/fd").iterdir()):
        if int(path.name) not in kept_descriptors:
            with suppress(OSError):
                os.close(int(path.name))


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError, ValueError):  # no /proc, or a lower limit already applies
        used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used_bytes + _MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _give_threads_larger_stacks() -> None:
    """Give the threads of this child larger stacks than those of the parent's threads.

    glibc gives the stacks of threads that ended, or that a fork left behind, to new threads, unless a thread needs a
    larger stack. An old stack still has the state of the thread's name resolver. When a thread with such a state ends,
    glibc locks the resolver's configuration. If a thread of the parent was looking up a name at the fork, this lock is
    never released.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "pthread_setattr_default_np"):  # not glibc
        return
    attributes, stack_bytes = ctypes.create_string_buffer(_THREAD_ATTRIBUTES_BYTES), ctypes.c_size_t()
    libc.pthread_getattr_default_np(attributes)
    libc.pthread_attr_getstacksize(attributes, ctypes.byref(stack_bytes))
    libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(stack_bytes.value + _ADDED_STACK_BYTES))
    libc.pthread_setattr_default_np(attributes)
    libc.pthread_attr_destroy(attributes)


def _exit_with_parent(descriptor: int) -> None:
    """End this process when the parent closes its side of the connection, even while RocksDB reads."""
    poll = select.poll()
    poll.register(descriptor, 0)  # registered for no event, because poll(2) reports a hang-up anyway
    poll.poll()
    os._exit(0)
