package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Line;
import harness.Results;
import harness.Run;
import harness.Scenario;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.AllWindowFunction;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.util.Collector;

/**
 * Windows of all sorts that are open over the pause: reduced, collected, merging, counting (with and without an
 * evictor), and `windowAll`, which never runs in parallel. They emit their content when they close. Parameters: `seed`,
 * `keys`.
 */
public final class Windows implements Scenario {
    /** Length of the windows, which is beyond the pause, so that they have the events of both phases. */
    private static final long LONG = 4 * Feed.PAUSE;

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        DataStream<Tuple3<Long, Integer, Long>> events =
                Feed.add(environment, job, run, "events", Events.TYPE, new Events(job));
        KeyedStream<Tuple3<Long, Integer, Long>, Long> byUser = events.keyBy(event -> event.f0, Types.LONG);
        collect(
                "tumbling",
                byUser.window(Line.tumbling(LONG)).reduce(Windows::sum, new ListedEvents<>("tumbling"), Types.STRING),
                job,
                run);
        collect(
                "session",
                byUser.window(Line.session(2 * Feed.PAUSE)).apply(new ListedEvents<>("session"), Types.STRING),
                job,
                run);
        collect("count", byUser.countWindow(4).apply(new ListedEvents<>("count"), Types.STRING), job, run);
        collect("evicting", byUser.countWindow(3, 2).apply(new ListedEvents<>("evicting"), Types.STRING), job, run);
        Results.collect(
                events.windowAll(Line.tumbling(LONG)).apply(new SummedEvents(), Types.STRING).uid("all"),
                job, run, "all");
    }

    private static void collect(String name, SingleOutputStreamOperator<String> windows, Job job, Run run) {
        Results.collect(windows.uid(name).setParallelism(job.parallelism(name)), job, run, name);
    }

    private static Tuple3<Long, Integer, Long> sum(
            Tuple3<Long, Integer, Long> left, Tuple3<Long, Integer, Long> right) {
        return Tuple3.of(left.f0, left.f1 + right.f1, left.f2 + right.f2);
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    /** Lists a window's content in order, which is defined: all events of a key come from one feed. */
    private static final class ListedEvents<W extends Window>
            implements WindowFunction<Tuple3<Long, Integer, Long>, String, Long, W> {
        private static final long serialVersionUID = 1L;

        private final String name;

        ListedEvents(String name) {
            this.name = name;
        }

        @Override
        public void apply(Long user, W window, Iterable<Tuple3<Long, Integer, Long>> events, Collector<String> out) {
            out.collect(name + " of " + user + " in " + window + ": " + events);
        }
    }

    /** Sums up a window over all keys, whose order is undefined. */
    private static final class SummedEvents
            implements AllWindowFunction<
                    Tuple3<Long, Integer, Long>,
                    String,
                    TimeWindow> {
        private static final long serialVersionUID = 1L;

        @Override
        public void apply(
                TimeWindow window,
                Iterable<Tuple3<Long, Integer, Long>> events,
                Collector<String> out) {
            long number = 0;
            long sum = 0;
            for (Tuple3<Long, Integer, Long> event : events) {
                number++;
                sum += event.f2;
            }
            out.collect("all in " + window + ": " + number + " events, " + sum);
        }
    }
}
