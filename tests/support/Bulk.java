import java.time.Duration;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * A job with much keyed state, of which a part changes all the time.
 *
 * <p>Arguments: the number of keys, the bytes of a value, and the number of keys that change in a second, at any
 * parallelism. With a fourth argument, each key also has a map of three entries, a value with a time to live, and a timer
 * of each kind, which never fires. The numbers of a split come in order: first each key of the split once, as fast as
 * possible, then random ones of all keys, at the rate. There is a split for each subtask of a job that was first started
 * with parallelism 6. A source subtask reads one split at a time, so at a lower parallelism some splits wait.
 */
public final class Bulk {
    private static final int SPLITS = 6;
    private static final long SPLIT = 1L << 40;

    public static void main(String[] arguments) throws Exception {
        long keysOfSplit = Long.parseLong(arguments[0]) / SPLITS;
        int bytes = Integer.parseInt(arguments[1]);
        long rate = Long.parseLong(arguments[2]);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment
                .fromSequence(0, SPLITS * SPLIT - 1)
                .uid("numbers")
                .map(new Paced(keysOfSplit, rate))
                .uid("paced")
                .keyBy(number -> key(number, keysOfSplit))
                .process(arguments.length > 3 ? new KeepMore(bytes) : new Keep(bytes))
                .uid("kept")
                .sinkTo(new DiscardingSink<>())
                .uid("nowhere");
        environment.execute("bulk");
    }

    private static long key(long number, long keysOfSplit) {
        long n = number % SPLIT;
        if (n < keysOfSplit) {
            return number / SPLIT * keysOfSplit + n;
        }
        long mixed = number * 0x9E3779B97F4A7C15L;
        return Long.remainderUnsigned(mixed ^ (mixed >>> 29), keysOfSplit * SPLITS);
    }

    /** Lets the first keys pass as they come, and a subtask's share of the rate afterwards. */
    private static final class Paced extends RichMapFunction<Long, Long> {
        private final long keysOfSplit;
        private final long rate;
        private transient long begun;
        private transient long passed;

        private Paced(long keysOfSplit, long rate) {
            this.keysOfSplit = keysOfSplit;
            this.rate = rate;
        }

        @Override
        public Long map(Long number) throws Exception {
            if (number % SPLIT < keysOfSplit) {
                return number;
            }
            if (passed == 0) {
                begun = System.nanoTime();
            }
            passed++;
            int subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            long early = begun + passed * subtasks * 1_000_000_000L / rate - System.nanoTime();
            if (early > 0) {
                Thread.sleep(early / 1_000_000, (int) (early % 1_000_000));
            }
            return number;
        }
    }

    private static class Keep extends KeyedProcessFunction<Long, Long, Long> {
        private final int bytes;
        private transient ValueState<byte[]> kept;

        private Keep(int bytes) {
            this.bytes = bytes;
        }

        @Override
        public void open(OpenContext context) {
            kept = getRuntimeContext().getState(new ValueStateDescriptor<>("kept", byte[].class));
        }

        @Override
        public void processElement(Long number, Context context, Collector<Long> out) throws Exception {
            byte[] value = new byte[bytes];
            new java.util.SplittableRandom(number).nextBytes(value);
            kept.update(value);
            out.collect(number);
        }
    }

    private static final class KeepMore extends Keep {
        private static final int ENTRIES = 3;
        private static final long NEVER = 1L << 50;
        private transient MapState<Integer, Long> entries;
        private transient ValueState<Long> seen;

        private KeepMore(int bytes) {
            super(bytes);
        }

        @Override
        public void open(OpenContext context) {
            super.open(context);
            entries = getRuntimeContext().getMapState(new MapStateDescriptor<>("entries", Integer.class, Long.class));
            ValueStateDescriptor<Long> expiring = new ValueStateDescriptor<>("seen", Long.class);
            expiring.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofDays(1)).build());
            seen = getRuntimeContext().getState(expiring);
        }

        @Override
        public void processElement(Long number, Context context, Collector<Long> out) throws Exception {
            for (int entry = 0; entry < ENTRIES; entry++) {
                entries.put(entry, number + entry);
            }
            seen.update(number);
            context.timerService().registerEventTimeTimer(NEVER + context.getCurrentKey());
            context.timerService().registerProcessingTimeTimer(NEVER + context.getCurrentKey());
            super.processElement(number, context, out);
        }
    }
}
