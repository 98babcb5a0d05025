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
    /** Event time between the phases, in ms: records of phase 1 are older, those of phase 2 are younger. */
    public static final long PAUSE = 100_000;

    /** The phases of waves, which come between 1 and 2 if the harness asks for them, begin here. */
    private static final int WAVES = 3;

    /** A record and its event time. */
    public record Timed<T>(T value, long time) {}

    /** What a subtask emits in a phase (1 or 2, or a wave's); all of a key comes from one subtask, in order. */
    public interface Records<T> extends Serializable {
        List<Timed<T>> of(int phase, int subtask, int parallelism);
    }

    /** Which subtasks are finished after the first phase. */
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

    /** Adds a feed named and identified by `name`, as wide as the job says. */
    public static <T> SingleOutputStreamOperator<T> add(
            StreamExecutionEnvironment environment,
            Job job,
            Run run,
            String name,
            TypeInformation<T> type,
            Records<T> records) {
        return add(environment, job, run, name, type, records, subtask -> false);
    }

    /** As `add`; the subtasks that `ends` names are finished after the first phase. */
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

    /** Which wave a phase is; the first phase is wave 0. */
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
