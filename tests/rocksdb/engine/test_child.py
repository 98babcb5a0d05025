"""Child processes use nothing that another thread of the parent may hold at the fork."""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rescale.rocksdb.engine.child import ChildTask, conversation
from rescale.rocksdb.engine.shared_arrays import SharedArrays

THREADS = 8
RESOLVER_MARK = 7


@pytest.mark.usefixtures("new_children")
def test_threads_of_a_child_have_no_resolver_state_of_the_parents_threads() -> None:
    """glibc gives stacks of the parent's threads, with the state of their name resolvers, to new threads of a child."""
    running_threads = ThreadPoolExecutor(THREADS)
    start_barrier = threading.Barrier(THREADS)
    list(running_threads.map(lambda _: mark_resolver_state(start_barrier), range(THREADS)))
    with running_threads, conversation(states_of_new_threads, size=0) as child_conversation:
        states = child_conversation.ask("states")
    assert states == [0] * THREADS


def states_of_new_threads(_: SharedArrays) -> ChildTask:
    yield None
    start_barrier = threading.Barrier(THREADS)
    with ThreadPoolExecutor(THREADS) as new_threads:
        yield list(new_threads.map(lambda _: resolver_state(start_barrier).value, range(THREADS)))


def mark_resolver_state(start_barrier: threading.Barrier) -> None:
    resolver_state(start_barrier).value = RESOLVER_MARK


def resolver_state(start_barrier: threading.Barrier) -> ctypes.c_int:
    """Return the first field of glibc's resolver state of this thread, once all threads of the barrier run."""
    start_barrier.wait()
    libc = ctypes.CDLL(None)
    libc.__res_state.restype = ctypes.c_void_p
    return ctypes.c_int.from_address(libc.__res_state())
