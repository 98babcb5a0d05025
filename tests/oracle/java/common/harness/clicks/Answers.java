package harness.clicks;

import harness.Line;
import harness.Run;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.co.BroadcastProcessFunction;
import org.apache.flink.util.Collector;

/** Answers questions for the price of a page, by a broadcast state of prices. */
final class Answers extends BroadcastProcessFunction<String, Tuple2<String, Long>, String>
        implements CheckpointedFunction {
    private static final long serialVersionUID = 1L;
    static final String NAME = "answers";

    private final String run;

    Answers(Run run) {
        this.run = run.id;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        BroadcastState<String, Long> prices = context.getOperatorStateStore().getBroadcastState(Revenue.PRICES);
        if (context.isRestored()) {
            List<String> held = new ArrayList<>();
            prices.immutableEntries().forEach(entry -> held.add(entry.toString()));
            Run.of(run).found.elements(NAME + "/prices", Line.subtask(getRuntimeContext()), held);
        }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) {}

    @Override
    public void processElement(String page, ReadOnlyContext context, Collector<String> out) throws Exception {
        out.collect(page + " costs " + context.getBroadcastState(Revenue.PRICES).get(page));
    }

    @Override
    public void processBroadcastElement(Tuple2<String, Long> price, Context context, Collector<String> out)
            throws Exception {
        context.getBroadcastState(Revenue.PRICES).put(price.f0, price.f1);
    }
}
