package harness.clicks;

import harness.Feed;
import harness.Line;
import harness.Run;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.co.KeyedBroadcastProcessFunction;
import org.apache.flink.util.Collector;

/** Computes the worth of a page's clicks at the end of the day, by a broadcast state of prices. */
final class Revenue
        extends KeyedBroadcastProcessFunction<
                String, Tuple3<String, String, Integer>, Tuple2<String, Long>, String>
        implements CheckpointedFunction {
    private static final long serialVersionUID = 1L;
    static final String NAME = "revenue";
    static final MapStateDescriptor<String, Long> PRICES =
            new MapStateDescriptor<>("prices", Types.STRING, Types.LONG);
    private static final ValueStateDescriptor<Long> CLICKS = new ValueStateDescriptor<>("clicks", Types.LONG);

    private final String run;

    Revenue(Run run) {
        this.run = run.id;
    }

    /** Returns the prices of a phase, which one subtask emits. The second phase raises one price. */
    static List<Feed.Timed<Tuple2<String, Long>>> prices(int phase, int subtask) {
        List<Feed.Timed<Tuple2<String, Long>>> prices = new ArrayList<>();
        if (subtask == 0 && phase == 1) {
            for (String page : Clicks.PAGES) {
                prices.add(new Feed.Timed<>(Tuple2.of(page, 10L * page.length()), 0));
            }
        }
        if (subtask == 0 && phase == 2) {
            prices.add(new Feed.Timed<>(Tuple2.of("/hats", 99L), Feed.PAUSE));
        }
        return prices;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        BroadcastState<String, Long> prices = context.getOperatorStateStore().getBroadcastState(PRICES);
        if (context.isRestored()) {
            List<String> held = new ArrayList<>();
            prices.immutableEntries().forEach(entry -> held.add(entry.toString()));
            Run.of(run).found.elements(NAME + "/prices", Line.subtask(getRuntimeContext()), held);
        }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) {}

    @Override
    public void processElement(
            Tuple3<String, String, Integer> click, ReadOnlyContext context, Collector<String> out) throws Exception {
        ValueState<Long> clicks = getRuntimeContext().getState(CLICKS);
        clicks.update(clicks.value() == null ? 1 : clicks.value() + 1);
        context.timerService().registerEventTimeTimer(3 * Feed.PAUSE);
    }

    @Override
    public void processBroadcastElement(Tuple2<String, Long> price, Context context, Collector<String> out)
            throws Exception {
        context.getBroadcastState(PRICES).put(price.f0, price.f1);
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
        long clicks = getRuntimeContext().getState(CLICKS).value();
        long price = context.getBroadcastState(PRICES).get(context.getCurrentKey());
        out.collect(context.getCurrentKey() + ": " + clicks + " clicks at " + price);
    }
}
