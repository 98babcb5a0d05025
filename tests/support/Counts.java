import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Counts numbers by their remainder, slowly and for ever: a job with keyed state and a source's splits.
 *
 * <p>The numbers of a split come in order, and a key has those of one split. If the job was first started with 1, 2, 5 or
 * 10 subtasks, a split begins where a block does, and every number tells what its key has counted before: the job fails
 * if anything was lost, or is read twice.
 *
 * <p>Arguments: a max parallelism that the code sets, which no configuration overrides (0 or none for the usual), and
 * the job's name.
 */
public final class Counts {
    private static final long KEYS = 100;
    private static final long BLOCK = 100_000_000L;

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        if (arguments.length > 0 && !arguments[0].equals("0")) {
            environment.setMaxParallelism(Integer.parseInt(arguments[0]));
        }
        environment
                .fromSequence(0, 10 * BLOCK - 1)
                .uid("numbers")
                .map(number -> {
                    Thread.sleep(5);
                    return number;
                })
                .returns(Long.class)
                .uid("slow")
                .keyBy(number -> number / BLOCK * KEYS + number % KEYS)
                .process(new Count())
                .uid("counts")
                .sinkTo(new DiscardingSink<>())
                .uid("nowhere");
        environment.execute(arguments.length > 1 ? arguments[1] : "counts");
    }

    private static final class Count extends KeyedProcessFunction<Long, Long, Long> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Long.class));
        }

        @Override
        public void processElement(Long number, Context context, Collector<Long> out) throws Exception {
            long before = count.value() == null ? 0 : count.value();
            if (before != number % BLOCK / KEYS) {
                throw new IllegalStateException("before " + number + " its key had counted " + before);
            }
            count.update(before + 1);
            out.collect(before + 1);
        }
    }
}
