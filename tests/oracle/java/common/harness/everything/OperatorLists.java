package harness.everything;

import harness.RestoredState;
import harness.Line;
import harness.Run;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Operator state in all modes. A fresh job fills it when it starts, from the seed and the subtask's number; records
 * only pass through.
 */
public final class OperatorLists extends AbstractStreamOperator<String>
        implements OneInputStreamOperator<String, String> {
    private static final long serialVersionUID = 1L;
    public static final String NAME = "lists";

    private final String run;
    private final long seed;

    public OperatorLists(Run run, long seed) {
        this.run = run.id;
        this.seed = seed;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        OperatorStateStore store = context.getOperatorStateStore();
        RestoredState found = context.isRestored() ? Run.of(run).found : null;
        int subtask = Line.subtask(getRuntimeContext());
        int parallelism = Line.parallelism(getRuntimeContext());
        list(store.getListState(new ListStateDescriptor<>("numbers", Types.LONG)),
                "numbers", found, Elements.numbers(seed, subtask));
        list(store.getListState(new ListStateDescriptor<>("words", Types.STRING)),
                "words", found, Elements.words(seed, subtask));
        TypeInformation<Tuple2<Integer, String>> pair = Types.TUPLE(Types.INT, Types.STRING);
        list(store.getListState(new ListStateDescriptor<>("pairs", pair)),
                "pairs", found, Elements.pairs(seed, subtask));
        list(store.getListState(new ListStateDescriptor<>("sparse", Types.STRING)),
                "sparse", found, Elements.sparse(subtask, parallelism));
        list(store.getListState(new ListStateDescriptor<>("void", Types.STRING)), "void", found, List.of());
        ListState<String> offsets = store.getUnionListState(new ListStateDescriptor<>("offsets", Types.STRING));
        list(offsets, "offsets", found, Elements.offsets(subtask));
        if (context.isRestored()) {
            keepOwn(offsets, subtask, parallelism);
        }
        list(store.getUnionListState(new ListStateDescriptor<>("no-offsets", Types.LONG)),
                "no-offsets", found, List.of());
        broadcast(store.getBroadcastState(new MapStateDescriptor<>("rates", Types.STRING, Types.LONG)),
                "rates", found, Elements.rates(seed));
        broadcast(store.getBroadcastState(new MapStateDescriptor<>("no-rates", Types.STRING, Types.LONG)),
                "no-rates", found, Map.of());
    }

    private <T> void list(ListState<T> state, String name, RestoredState found, List<T> fresh) throws Exception {
        if (found == null) {
            state.addAll(fresh);
            return;
        }
        List<String> held = new ArrayList<>();
        for (T element : state.get()) {
            held.add(element.toString());
        }
        found.elements(NAME + "/" + name, Line.subtask(getRuntimeContext()), held);
    }

    /**
     * Keeps this subtask's share of the union, of which every subtask has got a copy: otherwise it would grow with
     * every restore. The order of elements differs between subtasks.
     */
    private static void keepOwn(ListState<String> union, int subtask, int parallelism) throws Exception {
        List<String> all = new ArrayList<>();
        union.get().forEach(all::add);
        Collections.sort(all);
        union.clear();
        for (int number = subtask; number < all.size(); number += parallelism) {
            union.add(all.get(number));
        }
    }

    private void broadcast(
            BroadcastState<String, Long> state, String name, RestoredState found, Map<String, Long> fresh)
            throws Exception {
        if (found == null) {
            state.putAll(fresh);
            return;
        }
        List<String> held = new ArrayList<>();
        for (Map.Entry<String, Long> entry : state.immutableEntries()) {
            held.add(entry.toString());
        }
        found.elements(NAME + "/" + name, Line.subtask(getRuntimeContext()), held);
    }

    @Override
    public void processElement(StreamRecord<String> element) {
        output.collect(element);
    }
}
