package harness.everything;

import harness.Feed;
import harness.Line;
import harness.Run;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.co.KeyedBroadcastProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A keyed stream connected with a broadcast stream. It is undefined which arrives first, so results come only from
 * timers at the end of the job: one for every user, with the number of its events and all rules.
 */
public final class Rules extends KeyedBroadcastProcessFunction<Long, Tuple3<Long, Integer, Long>, String, String>
        implements CheckpointedFunction {
    private static final long serialVersionUID = 1L;
    public static final String NAME = "rules";
    static final MapStateDescriptor<String, Integer> BY_NAME =
            new MapStateDescriptor<>("by-name", Types.STRING, Types.INT);
    private static final ValueStateDescriptor<Integer> EVENTS = new ValueStateDescriptor<>("events", Types.INT);

    private final String run;

    public Rules(Run run) {
        this.run = run.id;
    }

    /** Returns the rules of a phase, which one subtask emits. */
    static List<Feed.Timed<String>> rules(int phase, int subtask) {
        if (subtask > 0) {
            return List.of();
        }
        return phase == 1
                ? List.of(new Feed.Timed<>("red", 0), new Feed.Timed<>("green", 0), new Feed.Timed<>("blue", 0))
                : List.of(new Feed.Timed<>("white", Feed.PAUSE + 1));
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        BroadcastState<String, Integer> rules = context.getOperatorStateStore().getBroadcastState(BY_NAME);
        if (context.isRestored()) {
            List<String> held = new ArrayList<>();
            rules.immutableEntries().forEach(entry -> held.add(entry.toString()));
            Run.of(run).found.elements(NAME + "/" + BY_NAME.getName(), Line.subtask(getRuntimeContext()), held);
        }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) {}

    @Override
    public void processElement(Tuple3<Long, Integer, Long> event, ReadOnlyContext context, Collector<String> out)
            throws Exception {
        ValueState<Integer> events = getRuntimeContext().getState(EVENTS);
        events.update(events.value() == null ? 1 : events.value() + 1);
        context.timerService().registerEventTimeTimer(2 * Feed.PAUSE + event.f0);
    }

    @Override
    public void processBroadcastElement(String rule, Context context, Collector<String> out) throws Exception {
        context.getBroadcastState(BY_NAME).put(rule, rule.length());
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
        Map<String, Integer> rules = new TreeMap<>();
        context.getBroadcastState(BY_NAME).immutableEntries().forEach(
                rule -> rules.put(rule.getKey(), rule.getValue()));
        int events = getRuntimeContext().getState(EVENTS).value();
        out.collect(context.getCurrentKey() + " had " + events + " events under " + rules);
    }
}
