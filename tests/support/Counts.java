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
 * <p>Argument: a max parallelism that the code sets, which no configuration overrides; 0 or none for the usual.
 */
public final class Counts {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        if (arguments.length > 0 && !arguments[0].equals("0")) {
            environment.setMaxParallelism(Integer.parseInt(arguments[0]));
        }
        environment
                .fromSequence(0, 1_000_000_000L)
                .uid("numbers")
                .map(number -> {
                    Thread.sleep(5);
                    return number;
                })
                .returns(Long.class)
                .uid("slow")
                .keyBy(number -> number % 100)
                .process(new Count())
                .uid("counts")
                .sinkTo(new DiscardingSink<>())
                .uid("nowhere");
        environment.execute("counts");
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
            count.update(before + 1);
            out.collect(before + 1);
        }
    }
}
