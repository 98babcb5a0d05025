package harness;

import java.time.Duration;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/** Calls that differ between Flink 1.x and 2.x, for 2.x. */
public final class Line {
    private Line() {}

    public static int subtask(RuntimeContext context) {
        return context.getTaskInfo().getIndexOfThisSubtask();
    }

    public static int parallelism(RuntimeContext context) {
        return context.getTaskInfo().getNumberOfParallelSubtasks();
    }

    public static int maxParallelism(RuntimeContext context) {
        return context.getTaskInfo().getMaxNumberOfParallelSubtasks();
    }

    public static StateTtlConfig timeToLive(long days) {
        return StateTtlConfig.newBuilder(Duration.ofDays(days)).build();
    }

    public static StateTtlConfig shortTimeToLive(long millis) {
        return StateTtlConfig.newBuilder(Duration.ofMillis(millis)).build();
    }

    public static Duration duration(long millis) {
        return Duration.ofMillis(millis);
    }

    public static TumblingEventTimeWindows tumbling(long millis) {
        return TumblingEventTimeWindows.of(Duration.ofMillis(millis));
    }

    public static EventTimeSessionWindows session(long millis) {
        return EventTimeSessionWindows.withGap(Duration.ofMillis(millis));
    }
}
