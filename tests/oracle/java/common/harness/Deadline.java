package harness;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Deadline of a command; no wait of the command lasts longer. */
public final class Deadline {
    private final long end;

    public Deadline(double seconds) {
        end = System.nanoTime() + (long) (seconds * 1e9);
    }

    public <T> T get(CompletableFuture<T> future, String what) throws Exception {
        try {
            return future.get(Math.max(1, end - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException error) {
            throw new TimeoutException("out of time: " + what);
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
        }
    }

    /** Waits a little between two polls; polling all tasks of a job takes CPU time from the job. */
    public void pause(String waitingFor) throws Exception {
        if (System.nanoTime() > end) {
            throw new TimeoutException("out of time: " + waitingFor);
        }
        Thread.sleep(40);
    }
}
