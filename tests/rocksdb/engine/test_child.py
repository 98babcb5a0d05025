"""Child processes use nothing that another thread of the parent may hold at the fork."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from rescale.rocksdb.engine.child import ChildTask, conversation
from rescale.rocksdb.engine.shared_arrays import SharedArrays

THREADS = 8


@pytest.mark.usefixtures("new_children")
def test_threads_of_a_child_reuse_no_stack_of_the_parents_threads() -> None:
    """Reused stacks have the resolver's state, so threads that end wait for the resolver's lock."""
    with ExitStack() as stack:
        stacks_of_parent = start_threads(stack)
        with conversation(stacks_of_threads, size=0) as with_child:
            stacks_of_child = with_child.ask("stacks")
    assert len(stacks_of_child) == THREADS
    assert not stacks_of_child & stacks_of_parent


def stacks_of_threads(_: SharedArrays) -> ChildTask:
    with ExitStack() as stack:
        yield None
        yield start_threads(stack)


def start_threads(stack: ExitStack) -> set[int]:
    """Start threads that wait until `stack` closes; return their identifiers, which are addresses in their stacks."""
    ended = threading.Event()
    threads = [threading.Thread(target=ended.wait) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
        stack.callback(thread.join)
    stack.callback(ended.set)
    return {thread.ident or 0 for thread in threads}
