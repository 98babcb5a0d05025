package harness;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What one running job and the harness share: all of it lives in one JVM, so functions carry the run's id only.
 * Feeds wait here between the phases, operators report what they found at restore, results end here.
 */
public final class Run {
    private static final Map<String, Run> RUNS = new ConcurrentHashMap<>();
    private static final AtomicInteger NUMBER = new AtomicInteger();

    public final String id = "run-" + NUMBER.incrementAndGet();
    public final boolean restored;
    public final Found found = new Found();
    private final AtomicInteger feeds = new AtomicInteger();
    private final AtomicInteger emitted = new AtomicInteger();
    private final CountDownLatch second = new CountDownLatch(1);
    private final List<String> results = new ArrayList<>();

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
        second.countDown();
        RUNS.remove(id);
    }

    /** Says that so many more feeding subtasks will emit a first phase. */
    public void expectFeeds(int subtasks) {
        feeds.addAndGet(subtasks);
    }

    public void emittedFirstPhase() {
        emitted.incrementAndGet();
    }

    public boolean allEmitted() {
        return restored || emitted.get() >= feeds.get();
    }

    public void startSecondPhase() {
        second.countDown();
    }

    public boolean inSecondPhase() {
        return second.getCount() == 0;
    }

    public boolean awaitSecondPhase(long millis) throws InterruptedException {
        return second.await(millis, TimeUnit.MILLISECONDS);
    }

    public void result(String text) {
        synchronized (results) {
            results.add(text);
        }
    }

    public List<String> results() {
        synchronized (results) {
            return new ArrayList<>(results);
        }
    }
}
