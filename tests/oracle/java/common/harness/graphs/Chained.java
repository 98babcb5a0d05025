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
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Two keyed operators in one chain, `first` and `second`, which both count a user's events. Parameters: `seed`, `keys`. */
public final class Chained implements Scenario {
    private static final ValueStateDescriptor<Long> COUNT = new ValueStateDescriptor<>("count", Types.LONG);

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        SingleOutputStreamOperator<String> first = add(
                Feed.add(environment, job, run, "events", Events.TYPE, new Events(job))
                        .keyBy(event -> event.f0, Types.LONG),
                "first", job, run);
        Results.collect(
                add(DataStreamUtils.reinterpretAsKeyedStream(first, Long::valueOf, Types.LONG), "second", job, run),
                job, run, "second");
    }

    private static <T> SingleOutputStreamOperator<String> add(
            KeyedStream<T, Long> stream, String name, Job job, Run run) {
        return stream.transform(name, Types.STRING, new ReportingOperator<>(run, name, new Count<T>(), List.of(COUNT)))
                .uid(name)
                .setParallelism(job.parallelism(name));
    }

    @Override
    public Expected expected(Job source) {
        Expected expected = new Expected();
        Map<String, Long> counts = new TreeMap<>();
        new Events(source).firstPhase().forEach(event -> counts.merge(event.f0.toString(), 1L, Long::sum));
        counts.forEach((user, count) -> {
            expected.key("first/count", user, count.toString());
            expected.key("second/count", user, count.toString());
        });
        return expected;
    }

    private static final class Count<T> extends KeyedProcessFunction<Long, T, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(T element, Context context, Collector<String> out) throws Exception {
            ValueState<Long> count = getRuntimeContext().getState(COUNT);
            count.update(count.value() == null ? 1 : count.value() + 1);
            out.collect(context.getCurrentKey().toString());
        }
    }
}
