package harness;

import java.io.Serializable;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.watermark.Watermark;

/**
 * A source without state that emits the records of a phase and waits for the next. At the end of the first phase event
 * time stands at `PAUSE`; at the end of the second the source ends, and event time with it. A barrier follows all
 * records that were emitted before it, so a snapshot that is triggered after `Run.allEmitted` holds all of them.
 */
public final class Feed<T> extends LegacySource<T> {
    private static final long serialVersionUID = 1L;
    /** Event time between the phases, in ms: later than the records of phase 1, earlier than those of phase 2. */
    public static final long PAUSE = 100_000;

    /** Number of the first phase of a wave; waves come between phases 1 and 2, on request of the harness. */
    private static final int WAVES = 3;

    /** A record and its event time. */
    public record Timed<T>(T value, long time) {}

    /** Records that a subtask emits in a phase; all records of a key come from one subtask, in order. */
    public interface Records<T> extends Serializable {
        List<Timed<T>> of(int phase, int subtask, int parallelism);
    }

    /** Choice of the subtasks that are finished after the first phase. */
    public interface Ends extends Serializable {
        boolean after(int subtask);
    }

    private final String run;
    private final Records<T> records;
    private final Ends ends;
    private volatile boolean running = true;

    private Feed(String run, Records<T> records, Ends ends) {
        this.run = run;
        this.records = records;
        this.ends = ends;
    }

    /** Adds a feed with the name and uid `name`, at the parallelism that the job has for it. */
    public static <T> SingleOutputStreamOperator<T> add(
            StreamExecutionEnvironment environment,
            Job job,
            Run run,
            String name,
            TypeInformation<T> type,
            Records<T> records) {
        return add(environment, job, run, name, type, records, subtask -> false);
    }

    /** Adds a feed whose subtasks in `ends` are finished after the first phase. */
    public static <T> SingleOutputStreamOperator<T> add(
            StreamExecutionEnvironment environment,
            Job job,
            Run run,
            String name,
            TypeInformation<T> type,
            Records<T> records,
            Ends ends) {
        run.expectFeeds(job.parallelism(name));
        return environment
                .addSource(new Feed<>(run.id, records, ends), name, type)
                .uid(name)
                .setParallelism(job.parallelism(name));
    }

    /** Returns the number of the wave of a phase; the first phase is wave 0. */
    public static int wave(int phase) {
        return phase == 1 ? 0 : phase - WAVES + 1;
    }

    @Override
    public void run(SourceContext<T> context) throws Exception {
        Run shared = Run.of(run);
        if (!shared.restored) {
            emit(context, 1);
            context.emitWatermark(new Watermark(PAUSE));
            shared.emitted();
            if (ends.after(Line.subtask(getRuntimeContext()))) {
                return;
            }
        }
        boolean second = false;
        int phase = WAVES;
        while (running && !second) {
            second = shared.awaitSecondPhase(20);
            for (; phase < WAVES + shared.waves(); phase++) {
                emit(context, phase);
                shared.emitted();
            }
        }
        if (second) {
            emit(context, 2);
        }
    }

    private void emit(SourceContext<T> context, int phase) {
        int subtask = Line.subtask(getRuntimeContext());
        for (Timed<T> record : records.of(phase, subtask, Line.parallelism(getRuntimeContext()))) {
            synchronized (context.getCheckpointLock()) {
                context.collectWithTimestamp(record.value(), record.time());
            }
        }
    }

    @Override
    public void cancel() {
        running = false;
    }
}
