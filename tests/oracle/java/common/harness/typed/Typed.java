package harness.typed;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.LegacySink;
import harness.ReportingOperator;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The same operator several times, each with a value of another type of `Held`; `sink` is a sink that commits in two
 * phases. Parameters: `seed`, `keys`, and the names of the types as switches. An operator's name is "of " and its type.
 */
public final class Typed implements Scenario {
    private static final String STATE = "held";
    private static final String SINK = "sink";

    private static List<String> types(Job job) {
        List<String> types = new ArrayList<>(job.parameters.keySet());
        types.removeAll(List.of("seed", "keys", SINK));
        return types;
    }

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        DataStream<Tuple3<Long, Integer, Long>> events =
                Feed.add(environment, job, run, "events", Events.TYPE, new Events(job));
        for (String type : types(job)) {
            add(events, "of " + type, Held.kind(type), job, run);
        }
        if (job.has(SINK)) {
            events.addSink(new LegacySink<>()).uid(SINK).setParallelism(job.parallelism(SINK));
        }
    }

    private static <T> void add(
            DataStream<Tuple3<Long, Integer, Long>> events, String name, Held.Kind<T> kind, Job job, Run run) {
        ValueStateDescriptor<T> held = new ValueStateDescriptor<>(STATE, kind.type());
        Results.collect(
                events.keyBy(event -> event.f0, Types.LONG)
                        .transform(name, Types.STRING, new ReportingOperator<>(run, name, new Hold<>(held, kind), List.of(held)))
                        .uid(name)
                        .setParallelism(job.parallelism(name)),
                job, run, name);
    }

    @Override
    public Expected expected(Job source) {
        Expected expected = new Expected();
        for (String type : types(source)) {
            for (Tuple3<Long, Integer, Long> event : new Events(source).firstPhase()) {
                Object value = Held.kind(type).value().of(event.f0);
                expected.key("of " + type + "/" + STATE, event.f0.toString(), String.valueOf(value));
            }
        }
        return expected;
    }

    private static final class Hold<T> extends KeyedProcessFunction<Long, Tuple3<Long, Integer, Long>, String> {
        private static final long serialVersionUID = 1L;

        private final ValueStateDescriptor<T> held;
        private final Held.Kind<T> kind;

        Hold(ValueStateDescriptor<T> held, Held.Kind<T> kind) {
            this.held = held;
            this.kind = kind;
        }

        @Override
        public void processElement(Tuple3<Long, Integer, Long> event, Context context, Collector<String> out)
                throws Exception {
            out.collect(event.f0 + " has " + getRuntimeContext().getState(held).value());
            getRuntimeContext().getState(held).update(kind.value().of(event.f0));
        }
    }
}
