package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.ReportingOperator;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.List;
import java.util.TreeMap;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A job of which a part has ended: all subtasks of the feed `short` are finished after the first phase, or with the
 * switch `partially` only the first one. Parameters: `seed`, `keys`.
 */
public final class Finished implements Scenario {
    private static final String NAME = "count";
    private static final ValueStateDescriptor<Long> COUNT = new ValueStateDescriptor<>("events", Types.LONG);

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        boolean partially = job.has("partially");
        DataStream<Tuple3<Long, Integer, Long>> ending = Feed.add(
                environment, job, run, "short", Events.TYPE,
                (phase, subtask, parallelism) ->
                        phase == 1 ? new Events(job).of(1, subtask, parallelism) : List.of(),
                subtask -> !partially || subtask == 0);
        run.expectFinished(partially ? 1 : job.parallelism("short"));
        DataStream<Tuple3<Long, Integer, Long>> lasting =
                Feed.add(environment, job, run, "long", Events.TYPE, new Events(job));
        Results.collect(
                ending.union(lasting)
                        .keyBy(event -> event.f0, Types.LONG)
                        .transform(
                                NAME, Types.STRING,
                                new ReportingOperator<>(
                                        run, NAME, new Count(), List.<StateDescriptor<?, ?>>of(COUNT)))
                        .uid(NAME)
                        .setParallelism(job.parallelism(NAME)),
                job, run, NAME);
    }

    @Override
    public Expected expected(Job source) {
        Expected expected = new Expected();
        for (Tuple3<Long, Integer, Long> event : new Events(source).firstPhase()) {
            expected.keyed
                    .computeIfAbsent(NAME + "/events", state -> new TreeMap<>())
                    .merge(event.f0.toString(), "2", (old, two) -> Long.toString(Long.parseLong(old) + 2));
        }
        return expected;
    }

    private static final class Count extends KeyedProcessFunction<Long, Tuple3<Long, Integer, Long>, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(Tuple3<Long, Integer, Long> event, Context context, Collector<String> out)
                throws Exception {
            ValueState<Long> count = getRuntimeContext().getState(COUNT);
            count.update(count.value() == null ? 1 : count.value() + 1);
            out.collect(event.f0 + " x " + count.value());
        }
    }
}
