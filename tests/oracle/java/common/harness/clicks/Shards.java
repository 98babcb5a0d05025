package harness.clicks;

import harness.Line;
import harness.Mix;
import harness.Run;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;

/** Passes clicks on; remembers which shards of a log it reads (SPLIT), and which subtask read each shard (UNION). */
final class Shards extends RichMapFunction<Tuple3<String, String, Integer>, Tuple3<String, String, Integer>>
        implements CheckpointedFunction {
    private static final long serialVersionUID = 1L;
    static final String NAME = "shards";
    static final ListStateDescriptor<String> SHARDS = new ListStateDescriptor<>("shards", Types.STRING);
    static final ListStateDescriptor<String> OWNERS = new ListStateDescriptor<>("owners", Types.STRING);

    private final String run;
    private final long seed;

    Shards(Run run, long seed) {
        this.run = run.id;
        this.seed = seed;
    }

    static List<String> shards(long seed, int subtask) {
        List<String> shards = new ArrayList<>();
        for (int number = 0; number < 1 + Mix.below(4, seed, subtask, 5); number++) {
            shards.add("shard-" + subtask + "-" + number + "@" + Mix.below(10_000, seed, subtask, number, 6));
        }
        return shards;
    }

    static List<String> owners(int subtask) {
        return List.of("shard-" + subtask + " was read by " + subtask);
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        ListState<String> shards = context.getOperatorStateStore().getListState(SHARDS);
        ListState<String> owners = context.getOperatorStateStore().getUnionListState(OWNERS);
        int subtask = Line.subtask(getRuntimeContext());
        if (!context.isRestored()) {
            shards.addAll(shards(seed, subtask));
            owners.addAll(owners(subtask));
            return;
        }
        List<String> all = elements(owners);
        Run.of(run).found.elements(NAME + "/shards", subtask, elements(shards));
        Run.of(run).found.elements(NAME + "/owners", subtask, all);
        // Each subtask keeps a share of the union, whose order differs between subtasks; otherwise it would grow.
        Collections.sort(all);
        owners.clear();
        for (int number = subtask; number < all.size(); number += Line.parallelism(getRuntimeContext())) {
            owners.add(all.get(number));
        }
    }

    private static List<String> elements(ListState<String> state) throws Exception {
        List<String> elements = new ArrayList<>();
        state.get().forEach(elements::add);
        return elements;
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) {}

    @Override
    public Tuple3<String, String, Integer> map(Tuple3<String, String, Integer> click) {
        return click;
    }
}
