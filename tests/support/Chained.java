import java.util.List;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Maps numbers, with list state, into a sink that always has one subtask; Flink generates all ids.
 *
 * <p>The sink is chained to the map at parallelism 1 alone.
 */
public final class Chained {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment
                .fromSequence(0, 1_000_000_000L)
                .map(new Remember())
                .returns(Long.class)
                .sinkTo(new DiscardingSink<>())
                .setParallelism(1);
        environment.execute("chained");
    }

    private static final class Remember extends RichMapFunction<Long, Long> implements CheckpointedFunction {
        private transient ListState<Long> numbers;
        private long last;

        @Override
        public Long map(Long number) throws Exception {
            Thread.sleep(5);
            last = number;
            return number;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            numbers = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("numbers", Long.class));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            numbers.update(List.of(last));
        }
    }
}
