package harness.graphs;

import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Mix;
import harness.Run;
import harness.Scenario;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Much state, for measurements: a value of incompressible bytes for each key, which nothing compares. Parameters:
 * `seed`, `keys`, `bytes` (the size of a value), and `changed-1`, `changed-2`, …: the number of keys, evenly spread,
 * that get another value in this wave. The second phase is empty.
 */
public final class Bulk implements Scenario {
    private static final String NAME = "bulk";
    private static final ValueStateDescriptor<byte[]> VALUE =
            new ValueStateDescriptor<>("value", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);

    private static final TypeInformation<Tuple2<Long, Integer>> EVENT = Types.TUPLE(Types.LONG, Types.INT);

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        long seed = job.parameter("seed", 1);
        long keys = job.parameter("keys", 1000);
        int bytes = (int) job.parameter("bytes", 1000);
        List<Long> changed = new ArrayList<>(List.of(keys));
        for (int wave = 1; job.parameter("changed-" + wave, 0) > 0; wave++) {
            changed.add(job.parameter("changed-" + wave, 0));
        }
        Feed.add(
                        environment, job, run, "events", EVENT,
                        (phase, subtask, parallelism) -> {
                            int wave = Feed.wave(phase);
                            long count = phase == 2 || wave >= changed.size() ? 0 : changed.get(wave);
                            return events(wave, count, keys, subtask, parallelism);
                        })
                .keyBy(event -> event.f0, Types.LONG)
                .process(new Filled(seed, bytes))
                .uid(NAME)
                .setParallelism(job.parallelism(NAME));
    }

    /** Returns the events of a wave for the subtask's share of `count` keys out of `keys`. */
    private static List<Feed.Timed<Tuple2<Long, Integer>>> events(
            int wave, long count, long keys, int subtask, int parallelism) {
        List<Feed.Timed<Tuple2<Long, Integer>>> own = new ArrayList<>();
        for (long number = subtask; number < count; number += parallelism) {
            own.add(new Feed.Timed<>(Tuple2.of(number * keys / count, wave), 1_000));
        }
        return own;
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    private static final class Filled extends KeyedProcessFunction<Long, Tuple2<Long, Integer>, Void> {
        private static final long serialVersionUID = 1L;
        private final long seed;
        private final int bytes;

        private Filled(long seed, int bytes) {
            this.seed = seed;
            this.bytes = bytes;
        }

        @Override
        public void processElement(Tuple2<Long, Integer> event, Context context, Collector<Void> out)
                throws Exception {
            ValueState<byte[]> state = getRuntimeContext().getState(VALUE);
            byte[] value = new byte[bytes];
            new SplittableRandom(Mix.of(seed, event.f0, event.f1)).nextBytes(value);
            state.update(value);
        }
    }
}
