"""Pool of worker processes that run tasks, stage by stage; a lost worker's task is run again.

The pool has no thread of its own: the caller's thread hands out tasks and takes in results. When a stage fails, workers
that still run a task of it are killed, and the next stage starts new ones.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from rescale.execution.meter import METER, StepCounters
from rescale.execution.progress import Progress
from rescale.execution.tasks.shared_function import SharedFunction
from rescale.execution.tasks.slices import ATTEMPTS, FAILED_REPEATEDLY, RESUME_ADVICE
from rescale.execution.tasks.worker import EndedTask, Report, StageWork, Task
from rescale.execution.tasks.worker_server import WorkerServer
from rescale.text.errors import RescaleError, StoreError
from rescale.text.names import signal_name

_POLL_SECONDS = 1.0
_KILL_TIMEOUT_MILLISECONDS = 10_000


@dataclass(eq=False)
class _Worker:
    """A worker process: the last function sent to it (`work`), the number of its current task, and its bytes done."""

    pid: int
    connection: Connection
    work: SharedFunction[StageWork] | None = None
    task_number: int | None = None
    bytes_done: int = 0


@dataclass
class WorkerPool:
    """Up to `size` worker processes with the given `environment`, which start when there are tasks for them."""

    size: int
    environment: Mapping[str, str]
    _server: WorkerServer | None = field(default=None, init=False)
    _workers: list[_Worker] = field(default_factory=list, init=False)

    def start(self) -> None:
        """Start the server in the background; it loads the modules that workers need."""
        if self._server is None:
            self._server = WorkerServer(self.environment)

    def run(
        self,
        body: StageWork,
        tasks: Sequence[Any],
        progress: Progress,
        stops_at: Callable[[Any], bool] = lambda _: False,
    ) -> list[Any]:
        """Run all tasks, and return their results in order.

        After a result for which `stops_at` is True, no further task begins; the results of tasks that did not begin are
        None. Raises the first final error of a task, and the last error of a task that failed, or lost its worker,
        `ATTEMPTS` times.
        """
        stage = _Stage(SharedFunction.pack(body), tasks, stops_at)
        try:
            while stage.due_tasks or stage.running_tasks:
                self._hand_out_tasks(stage)
                self._receive_messages(stage)
                progress.update(stage.bytes_done + sum(worker.bytes_done for worker in self._workers))
        finally:
            for worker in [worker for worker in self._workers if worker.task_number is not None]:
                self._kill(worker)
        progress.finish(stage.bytes_done)
        return stage.results

    def close(self) -> None:
        """Kill all workers and the server."""
        while self._workers:
            self._kill(self._workers[-1])
        if self._server is not None:
            self._server.close()
            self._server = None

    def _hand_out_tasks(self, stage: _Stage) -> None:
        idle_workers = [worker for worker in self._workers if worker.task_number is None]
        while stage.due_tasks and (idle_workers or len(self._workers) < self.size):
            worker = idle_workers.pop() if idle_workers else self._new_worker()
            task_number = stage.due_tasks.popleft()
            worker.task_number, worker.bytes_done = task_number, 0
            stage.running_tasks += 1
            stage.attempts[task_number] += 1
            task = Task(None if worker.work is stage.work else stage.work, pickle.dumps(stage.tasks[task_number]))
            worker.work = stage.work
            with suppress(OSError):  # if the worker has ended, `_receive_messages` notices it
                worker.connection.send(task)

    def _receive_messages(self, stage: _Stage) -> None:
        busy_workers = {worker.connection: worker for worker in self._workers if worker.task_number is not None}
        for connection in wait(list(busy_workers), _POLL_SECONDS):
            worker = busy_workers[connection]  # type: ignore[index]
            try:
                message: Report | EndedTask = worker.connection.recv()
            except (EOFError, OSError):
                self._fail_task_of_ended(worker, stage)
                continue
            if isinstance(message, Report):
                worker.bytes_done += message.bytes_done
                continue
            task_number, bytes_done = worker.task_number, worker.bytes_done + message.bytes_done
            assert task_number is not None
            worker.task_number, worker.bytes_done = None, 0
            stage.running_tasks -= 1
            if message.error is not None:
                stage.record_failure(task_number, message.error)
            else:
                stage.record_success(task_number, message, bytes_done)

    def _fail_task_of_ended(self, worker: _Worker, stage: _Stage) -> None:
        task_number, exit_code = worker.task_number, self._exit_code(worker)
        assert task_number is not None
        self._kill(worker)
        stage.running_tasks -= 1
        exit_text = f"exit code {exit_code}" if exit_code >= 0 else f"killed by {signal_name(-exit_code)}"
        stage.record_failure(
            task_number,
            StoreError(FAILED_REPEATEDLY, found=f"its worker process ended: {exit_text}", advice=RESUME_ADVICE),
        )

    def _exit_code(self, worker: _Worker) -> int:
        with suppress(OSError):
            if self._server is not None:
                return self._server.exit_code(worker.pid)
        return 1

    def _new_worker(self) -> _Worker:
        for _ in range(2):
            self.start()
            assert self._server is not None
            try:
                worker = _Worker(*self._server.fork(len(self._workers)))
            except OSError as error:
                failure = error
            else:
                self._workers.append(worker)
                return worker
            self._server.close()
            self._server = None
        raise StoreError(
            "worker processes do not start", found=failure, advice="read the output above; check the free memory"
        )

    def _kill(self, worker: _Worker) -> None:
        """Kill a worker and wait for its end, after which it cannot write any more."""
        if worker in self._workers:
            self._workers.remove(worker)
        hang_up = select.poll()
        # Registered for no event, because poll(2) reports a hang-up anyway.
        hang_up.register(worker.connection.fileno(), 0)
        if not hang_up.poll(0):
            with suppress(OSError):
                os.kill(worker.pid, signal.SIGKILL)
            hang_up.poll(_KILL_TIMEOUT_MILLISECONDS)
        worker.connection.close()


class _Stage:
    """Tasks with the same work, their attempts and their results."""

    def __init__(self, work: SharedFunction[StageWork], tasks: Sequence[Any], stops_at: Callable[[Any], bool]) -> None:
        self.work = work
        self.tasks = tasks
        self.due_tasks = deque(range(len(tasks)))
        self.attempts = [0] * len(tasks)
        self.results: list[Any] = [None] * len(tasks)
        self.running_tasks = 0
        self.bytes_done = 0
        self._stops_at = stops_at

    def record_success(self, task_number: int, ended_task: EndedTask, bytes_done: int) -> None:
        self.results[task_number] = pickle.loads(ended_task.packed)
        self.bytes_done += bytes_done
        METER.add_worker(ended_task.counters.plus(StepCounters(lost_task_count=self.attempts[task_number] - 1)))
        if self._stops_at(self.results[task_number]):
            self.due_tasks.clear()

    def record_failure(self, task_number: int, error: RescaleError) -> None:
        """Queue a failed task again; raise the error if it is final, or if this was the last attempt."""
        if error.is_final:
            raise error
        if self.attempts[task_number] >= ATTEMPTS:
            raise error.located(advice=RESUME_ADVICE)
        self.due_tasks.appendleft(task_number)
