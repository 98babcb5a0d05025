import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Sets one timer for each of 100 keys when it is first seen; it sets itself again whenever it fires, once a second.
 *
 * <p>So every timer that fires after a restore comes from one that was restored, and a job that has lost a timer hears
 * nothing of its key, and fails.
 *
 * <p>Argument: the job's name.
 */
public final class Alarms {
    private static final long KEYS = 100;
    private static final long PERIOD_MILLIS = 1_000;
    private static final long PATIENCE_MILLIS = 60_000;

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment
                .fromSequence(0, 1_000_000_000L)
                .uid("numbers")
                .map(number -> {
                    Thread.sleep(5);
                    return number % KEYS;
                })
                .returns(Long.class)
                .uid("slow")
                .keyBy(key -> key)
                .process(new Alarm())
                .uid("alarms")
                .rebalance()
                .sinkTo(new DiscardingSink<>())
                .name("heard")
                .uid("heard");
        environment.execute(arguments.length > 0 ? arguments[0] : "alarms");
    }

    private static final class Alarm extends KeyedProcessFunction<Long, Long, Long> {
        private transient ValueState<Long> due;
        private transient long opened;

        @Override
        public void open(OpenContext context) {
            due = getRuntimeContext().getState(new ValueStateDescriptor<>("due", Long.class));
            opened = System.currentTimeMillis();
        }

        @Override
        public void processElement(Long key, Context context, Collector<Long> out) throws Exception {
            if (due.value() == null) {
                set(context);
            } else if (System.currentTimeMillis() > Math.max(due.value(), opened) + PATIENCE_MILLIS) {
                throw new IllegalStateException("the timer of key " + key + " did not fire");
            }
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<Long> out) throws Exception {
            out.collect(context.getCurrentKey());
            set(context);
        }

        private void set(Context context) throws Exception {
            long next = context.timerService().currentProcessingTime() + PERIOD_MILLIS;
            due.update(next);
            context.timerService().registerProcessingTimeTimer(next);
        }
    }
}
