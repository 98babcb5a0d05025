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
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Much state, and nothing that looks at it: for measuring. A value of bytes that cannot be compressed for each key.
 * Parameters: `seed`, `keys`, and `bytes`, the size of a value. Only the first phase has events.
 */
public final class Bulk implements Scenario {
    private static final String NAME = "bulk";
    private static final ValueStateDescriptor<byte[]> VALUE =
            new ValueStateDescriptor<>("value", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        long seed = job.parameter("seed", 1);
        long keys = job.parameter("keys", 1000);
        int bytes = (int) job.parameter("bytes", 1000);
        Feed.add(
                        environment, job, run, "events", Types.LONG,
                        (phase, subtask, parallelism) -> keys(phase == 1 ? keys : 0, subtask, parallelism))
                .keyBy(key -> key, Types.LONG)
                .process(new Filled(seed, bytes))
                .uid(NAME)
                .setParallelism(job.parallelism(NAME));
    }

    private static List<Feed.Timed<Long>> keys(long keys, int subtask, int parallelism) {
        List<Feed.Timed<Long>> own = new ArrayList<>();
        for (long key = subtask; key < keys; key += parallelism) {
            own.add(new Feed.Timed<>(key, 1_000));
        }
        return own;
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    private static final class Filled extends KeyedProcessFunction<Long, Long, Void> {
        private static final long serialVersionUID = 1L;
        private final long seed;
        private final int bytes;

        private Filled(long seed, int bytes) {
            this.seed = seed;
            this.bytes = bytes;
        }

        @Override
        public void processElement(Long key, Context context, Collector<Void> out) throws Exception {
            ValueState<byte[]> state = getRuntimeContext().getState(VALUE);
            byte[] value = new byte[bytes];
            new SplittableRandom(Mix.of(seed, key)).nextBytes(value);
            state.update(value);
        }
    }
}
