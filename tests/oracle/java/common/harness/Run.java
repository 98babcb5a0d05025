package harness;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Data that a running job and the harness share. Both live in one JVM, so functions carry only the run's id. Feeds wait
 * for the second phase, operators report their restored state, and sinks add results.
 */
public final class Run {
    private static final Map<String, Run> RUNS = new ConcurrentHashMap<>();
    private static final AtomicInteger NUMBER = new AtomicInteger();

    public final String id = "run-" + NUMBER.incrementAndGet();
    public final boolean restored;
    public final RestoredState found = new RestoredState();
    private final AtomicInteger feeds = new AtomicInteger();
    private final AtomicInteger emitted = new AtomicInteger();
    private final AtomicInteger waves = new AtomicInteger();
    private final AtomicInteger finishing = new AtomicInteger();
    private final CompletableFuture<Void> second = new CompletableFuture<>();
    private final List<String> results = new ArrayList<>();
    private final Map<String, String> last = new TreeMap<>();
    private final Map<String, Integer> changes = new TreeMap<>();

    public Run(boolean restored) {
        this.restored = restored;
        RUNS.put(id, this);
    }

    public static Run of(String id) {
        Run run = RUNS.get(id);
        if (run == null) {
            throw new IllegalStateException("the run " + id + " is over");
        }
        return run;
    }

    public void end() {
        RUNS.remove(id);
    }

    /** Adds to the number of feeding subtasks that will emit a first phase. */
    public void expectFeeds(int subtasks) {
        feeds.addAndGet(subtasks);
    }

    /** Records that a feeding subtask has emitted its first phase, or a wave. */
    public void emitted() {
        emitted.incrementAndGet();
    }

    public boolean allEmitted() {
        return emitted.get() >= feeds.get() * ((restored ? 0 : 1) + waves.get());
    }

    /** Lets every feed emit once more before the second phase. */
    public void startWave() {
        waves.incrementAndGet();
    }

    public int waves() {
        return waves.get();
    }

    /** Adds to the number of tasks that will be finished before the snapshot is taken. */
    public void expectFinished(int tasks) {
        finishing.addAndGet(tasks);
    }

    public int finishing() {
        return restored ? 0 : finishing.get();
    }

    public void startSecondPhase() {
        second.complete(null);
    }

    public boolean isInSecondPhase() {
        return second.isDone();
    }

    /** Calls `action` when the second phase begins, immediately if it has begun. */
    public void inSecondPhase(Runnable action) {
        second.thenRunAsync(action);
    }

    /** Waits for the second phase; returns false if it has not begun in this time. */
    public boolean awaitSecondPhase(long millis) throws Exception {
        try {
            second.get(millis, TimeUnit.MILLISECONDS);
            return true;
        } catch (TimeoutException notYet) {
            return false;
        }
    }

    public void result(String text) {
        synchronized (results) {
            results.add(text);
        }
    }

    /** Sets the last result of a stream whose earlier results depend on an undefined order of records. */
    public void last(String of, String text) {
        synchronized (results) {
            last.put(of, text);
        }
    }

    /** Adds a change of a stream whose single changes depend on an undefined order of records. */
    public void change(String row, int number) {
        synchronized (results) {
            changes.merge(row, number, (one, other) -> one + other == 0 ? null : one + other);
        }
    }

    public List<String> results() {
        synchronized (results) {
            List<String> all = new ArrayList<>(results);
            changes.forEach((row, number) -> all.add(row + ": " + number));
            last.forEach((of, text) -> all.add("last " + of + ": " + text));
            return all;
        }
    }

    public void forgetResults() {
        synchronized (results) {
            results.clear();
            last.clear();
            changes.clear();
        }
    }
}
