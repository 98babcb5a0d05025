import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.v2.ValueState;
import org.apache.flink.api.common.state.v2.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Counts numbers by their remainder, slowly and for ever, in asynchronous state, which Flink 1.x does not have. */
public final class AsyncCounts {
    private static final long KEYS = 100;

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment
                .fromSequence(0, 1_000_000_000L)
                .uid("numbers")
                .map(number -> {
                    Thread.sleep(5);
                    return number;
                })
                .returns(Long.class)
                .uid("slow")
                .keyBy(number -> number % KEYS)
                .enableAsyncState()
                .process(new Count())
                .name("counts")
                .uid("counts")
                .sinkTo(new DiscardingSink<>())
                .uid("nowhere");
        environment.execute("async counts");
    }

    private static final class Count extends KeyedProcessFunction<Long, Long, Long> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(Long number, Context context, Collector<Long> out) {
            count.asyncValue().thenAccept(before -> {
                long now = before == null ? 1 : before + 1;
                count.asyncUpdate(now).thenAccept(done -> out.collect(now));
            });
        }
    }
}
