package harness;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The end of a command's time: every wait is bounded by what is left of it. */
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

    /** Waits a little between two looks at something; a look at all tasks of a job costs as much as some of its work. */
    public void pause(String waitingFor) throws Exception {
        if (System.nanoTime() > end) {
            throw new TimeoutException("out of time: " + waitingFor);
        }
        Thread.sleep(40);
    }
}
