package harness;

import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.time.Time;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/** Calls that differ between Flink 1.x and 2.x, for 1.x. */
public final class Line {
    private Line() {}

    public static int subtask(RuntimeContext context) {
        return context.getIndexOfThisSubtask();
    }

    public static int parallelism(RuntimeContext context) {
        return context.getNumberOfParallelSubtasks();
    }

    public static int maxParallelism(RuntimeContext context) {
        return context.getMaxNumberOfParallelSubtasks();
    }

    public static StateTtlConfig timeToLive(long days) {
        return StateTtlConfig.newBuilder(Time.days(days)).build();
    }

    public static StateTtlConfig shortTimeToLive(long millis) {
        return StateTtlConfig.newBuilder(Time.milliseconds(millis)).build();
    }

    public static org.apache.flink.streaming.api.windowing.time.Time duration(long millis) {
        return org.apache.flink.streaming.api.windowing.time.Time.milliseconds(millis);
    }

    public static TumblingEventTimeWindows tumbling(long millis) {
        return TumblingEventTimeWindows.of(org.apache.flink.streaming.api.windowing.time.Time.milliseconds(millis));
    }

    public static EventTimeSessionWindows session(long millis) {
        return EventTimeSessionWindows.withGap(
                org.apache.flink.streaming.api.windowing.time.Time.milliseconds(millis));
    }
}
