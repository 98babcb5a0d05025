import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * A source, a map with list state, and a sink that always has one subtask: chained at parallelism 1 only.
 *
 * <p>Argument: {@code uids} gives all operators a uid; otherwise their ids are generated from the chains.
 */
public final class Chains {
    public static void main(String[] arguments) throws Exception {
        boolean withUids = arguments.length > 0 && arguments[0].equals("uids");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        SingleOutputStreamOperator<Long> numbers = environment.fromSequence(0, Long.MAX_VALUE - 1);
        SingleOutputStreamOperator<Long> remembered = (withUids ? numbers.uid("numbers") : numbers).map(new Remember());
        var sink = (withUids ? remembered.uid("remember") : remembered).sinkTo(new DiscardingSink<>()).setParallelism(1);
        if (withUids) {
            sink.uid("nowhere");
        }
        environment.execute("chains");
    }

    private static final class Remember implements MapFunction<Long, Long>, CheckpointedFunction {
        private long last;

        @Override
        public Long map(Long number) throws Exception {
            Thread.sleep(5);
            last = number;
            return number;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {}

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            context.getOperatorStateStore().getListState(new ListStateDescriptor<>("last", Long.class)).add(last);
        }
    }
}
