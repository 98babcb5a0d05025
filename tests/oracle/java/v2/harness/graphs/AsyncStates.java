package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.v2.AggregatingState;
import org.apache.flink.api.common.state.v2.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.v2.ListState;
import org.apache.flink.api.common.state.v2.ListStateDescriptor;
import org.apache.flink.api.common.state.v2.MapState;
import org.apache.flink.api.common.state.v2.MapStateDescriptor;
import org.apache.flink.api.common.state.v2.ReducingState;
import org.apache.flink.api.common.state.v2.ReducingStateDescriptor;
import org.apache.flink.api.common.state.v2.StateFuture;
import org.apache.flink.api.common.state.v2.ValueState;
import org.apache.flink.api.common.state.v2.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A function with states of every type of the asynchronous API, and timers. Every event of the second phase and every
 * timer emits all state of its key, so that results show the restored state. Parameters: `seed`, `keys`.
 */
public final class AsyncStates implements Scenario {
    private static final String NAME = "visits";
    /** Time of processing-time timers, so far in the future that they never fire. */
    private static final long FAR = 4_000_000_000_000L;

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        Results.collect(
                Feed.add(environment, job, run, "events", Events.TYPE, new Events(job))
                        .keyBy(event -> Events.name(event.f0), Types.STRING)
                        .enableAsyncState()
                        .process(new Visits(), Types.STRING)
                        .name(NAME)
                        .uid(NAME)
                        .setParallelism(job.parallelism(NAME)),
                job, run, NAME);
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    /** (number, sum) of amounts; its result is their mean. */
    private static final class Mean implements AggregateFunction<Long, Tuple2<Long, Long>, Double> {
        private static final long serialVersionUID = 1L;

        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Long amount, Tuple2<Long, Long> before) {
            return Tuple2.of(before.f0 + 1, before.f1 + amount);
        }

        @Override
        public Double getResult(Tuple2<Long, Long> all) {
            return (double) all.f1 / all.f0;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> one, Tuple2<Long, Long> other) {
            return Tuple2.of(one.f0 + other.f0, one.f1 + other.f1);
        }
    }

    private static final class Visits extends KeyedProcessFunction<String, Tuple3<Long, Integer, Long>, String> {
        private static final long serialVersionUID = 1L;

        private transient ValueState<Long> last;
        private transient ListState<String> history;
        private transient MapState<String, Long> amounts;
        private transient ReducingState<Long> sum;
        private transient AggregatingState<Long, Double> mean;

        @Override
        public void open(OpenContext context) {
            last = getRuntimeContext().getState(new ValueStateDescriptor<>("last", Types.LONG));
            history = getRuntimeContext().getListState(new ListStateDescriptor<>("history", Types.STRING));
            amounts = getRuntimeContext()
                    .getMapState(new MapStateDescriptor<>("amounts", Types.STRING, Types.LONG));
            sum = getRuntimeContext().getReducingState(new ReducingStateDescriptor<>("sum", Long::sum, Types.LONG));
            mean = getRuntimeContext()
                    .getAggregatingState(new AggregatingStateDescriptor<>(
                            "mean", new Mean(), Types.TUPLE(Types.LONG, Types.LONG)));
        }

        @Override
        public void processElement(Tuple3<Long, Integer, Long> event, Context context, Collector<String> out) {
            String number = "event-" + event.f1;
            String who = context.getCurrentKey();
            context.timerService().registerEventTimeTimer(Feed.PAUSE + 10 * event.f0 + event.f1);
            context.timerService().registerProcessingTimeTimer(FAR + event.f0);
            last.asyncUpdate(event.f2)
                    .thenCompose(done -> history.asyncAdd(number))
                    .thenCompose(done -> amounts.asyncPut(number, event.f2))
                    .thenCompose(done -> sum.asyncAdd(event.f2))
                    .thenCompose(done -> mean.asyncAdd(event.f2))
                    .thenCompose(done -> all())
                    .thenAccept(all -> out.collect(who + " has " + all));
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) {
            String who = context.getCurrentKey();
            all().thenAccept(all -> out.collect(who + " has " + all + " at " + time));
        }

        private StateFuture<String> all() {
            StringBuilder all = new StringBuilder();
            Map<String, Long> sorted = new TreeMap<>();
            return last.asyncValue()
                    .thenCompose(value -> {
                        all.append(value);
                        return history.asyncGet();
                    })
                    .thenCompose(elements -> elements.onNext(element -> {
                        all.append(", ").append(element);
                    }))
                    .thenCompose(done -> amounts.asyncEntries())
                    .thenCompose(entries -> entries.onNext(entry -> {
                        sorted.put(entry.getKey(), entry.getValue());
                    }))
                    .thenCompose(done -> sum.asyncGet())
                    .thenCombine(mean.asyncGet(), (total, average) -> all + " of " + sorted + ", " + total + ", " + average);
        }
    }
}
