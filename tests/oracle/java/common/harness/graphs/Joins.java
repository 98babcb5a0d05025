package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Line;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.flink.api.common.functions.CoGroupFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.util.Collector;

/**
 * Two streams that are joined in a window, grouped in sessions with the events of the user before, and joined by an
 * interval. Windows and interval include the pause. Parameters: `seed`, `keys`.
 */
public final class Joins implements Scenario {
    /** Length of the window, which is beyond the pause, so that it has the events of both phases. */
    private static final long LONG = 4 * Feed.PAUSE;

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        DataStream<Tuple3<Long, Integer, Long>> left =
                Feed.add(environment, job, run, "left", Events.TYPE, new Events(job));
        DataStream<Tuple3<Long, Integer, Long>> right =
                Feed.add(environment, job, run, "right", Events.TYPE, new Events(job));
        collect(
                "joined",
                left.join(right)
                        .where(event -> event.f0, Types.LONG)
                        .equalTo(event -> event.f0, Types.LONG)
                        .window(Line.tumbling(LONG))
                        .apply((one, other) -> "joined " + one + other, Types.STRING),
                job,
                run);
        collect(
                "grouped",
                left.coGroup(right)
                        .where(event -> event.f0, Types.LONG)
                        .equalTo(event -> event.f0 + 1, Types.LONG)
                        .window(Line.session(2 * Feed.PAUSE))
                        .apply(new Groups(), Types.STRING),
                job,
                run);
        collect(
                "interval",
                left.keyBy(event -> event.f0, Types.LONG)
                        .intervalJoin(right.keyBy(event -> event.f0, Types.LONG))
                        .between(Line.duration(-LONG), Line.duration(LONG))
                        .process(new Pairs(), Types.STRING),
                job,
                run);
    }

    private static void collect(String name, DataStream<String> stream, Job job, Run run) {
        SingleOutputStreamOperator<String> joined = (SingleOutputStreamOperator<String>) stream;
        Results.collect(joined.uid(name).setParallelism(job.parallelism(name)), job, run, name);
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    private static final class Groups
            implements CoGroupFunction<Tuple3<Long, Integer, Long>, Tuple3<Long, Integer, Long>, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void coGroup(
                Iterable<Tuple3<Long, Integer, Long>> left,
                Iterable<Tuple3<Long, Integer, Long>> right,
                Collector<String> out) {
            out.collect("grouped " + sorted(left) + " with " + sorted(right));
        }

        private static List<String> sorted(Iterable<Tuple3<Long, Integer, Long>> events) {
            List<String> texts = new ArrayList<>();
            events.forEach(event -> texts.add(event.toString()));
            Collections.sort(texts);
            return texts;
        }
    }

    private static final class Pairs
            extends ProcessJoinFunction<Tuple3<Long, Integer, Long>, Tuple3<Long, Integer, Long>, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(
                Tuple3<Long, Integer, Long> left,
                Tuple3<Long, Integer, Long> right,
                Context context,
                Collector<String> out) {
            out.collect("at once " + left + right);
        }
    }
}
