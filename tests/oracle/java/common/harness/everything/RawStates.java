package harness.everything;

import harness.RestoredState;
import harness.Line;
import harness.Mix;
import harness.Run;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.KeyGroupStatePartitionStreamProvider;
import org.apache.flink.runtime.state.KeyedStateCheckpointOutputStream;
import org.apache.flink.runtime.state.OperatorStateCheckpointOutputStream;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StatePartitionStreamProvider;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Raw state. Raw keyed state has the sum of amounts per user; key groups lie in descending order, without empty ones.
 * Raw operator state has strings, one partition each.
 */
public final class RawStates extends AbstractStreamOperator<String>
        implements OneInputStreamOperator<Tuple3<Long, Integer, Long>, String> {
    private static final long serialVersionUID = 1L;
    public static final String NAME = "raw";

    private final String run;
    private final long seed;
    private final boolean keyed;
    private final boolean unkeyed;
    private transient TreeMap<Integer, TreeMap<Long, Long>> sums;
    private transient List<String> strings;

    public RawStates(Run run, long seed, boolean keyed, boolean unkeyed) {
        this.run = run.id;
        this.seed = seed;
        this.keyed = keyed;
        this.unkeyed = unkeyed;
    }

    static List<String> strings(long seed, int subtask) {
        List<String> elements = new ArrayList<>();
        for (int number = 0; number < (2 * subtask + 3) % 5; number++) {
            elements.add("raw-" + subtask + "-" + "r".repeat(Mix.below(9, seed, subtask, number, 4)));
        }
        return elements;
    }

    static int group(long user, int maxParallelism) {
        return KeyGroupRangeAssignment.assignToKeyGroup(user, maxParallelism);
    }

    @Override
    protected boolean isUsingCustomRawKeyedState() {
        return true;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        sums = new TreeMap<>();
        int subtask = Line.subtask(getRuntimeContext());
        strings = new ArrayList<>();
        if (!context.isRestored()) {
            if (unkeyed) {
                strings.addAll(strings(seed, subtask));
            }
            return;
        }
        RestoredState found = Run.of(run).found;
        for (KeyGroupStatePartitionStreamProvider provider : context.getRawKeyedStateInputs()) {
            DataInputStream in = new DataInputStream(provider.getStream());
            TreeMap<Long, Long> group = new TreeMap<>();
            for (int left = in.readInt(); left > 0; left--) {
                group.put(in.readLong(), in.readLong());
            }
            sums.put(provider.getKeyGroupId(), group);
            found.group(
                    NAME + "/keyed",
                    provider.getKeyGroupId(),
                    group.toString(),
                    subtask,
                    Line.parallelism(getRuntimeContext()),
                    Line.maxParallelism(getRuntimeContext()));
        }
        for (StatePartitionStreamProvider provider : context.getRawOperatorStateInputs()) {
            strings.add(new DataInputStream(provider.getStream()).readUTF());
        }
        if (unkeyed) {
            found.elements(NAME + "/_default_", subtask, strings);
        }
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        if (keyed && !sums.isEmpty()) {
            KeyedStateCheckpointOutputStream out = context.getRawKeyedOperatorStateOutput();
            for (int number : sums.descendingKeySet()) {
                out.startNewKeyGroup(number);
                DataOutputStream data = new DataOutputStream(out);
                data.writeInt(sums.get(number).size());
                for (var entry : sums.get(number).entrySet()) {
                    data.writeLong(entry.getKey());
                    data.writeLong(entry.getValue());
                }
                data.flush();
            }
        }
        if (!strings.isEmpty()) {
            OperatorStateCheckpointOutputStream out = context.getRawOperatorStateOutput();
            for (String element : strings) {
                out.startNewPartition();
                DataOutputStream data = new DataOutputStream(out);
                data.writeUTF(element);
                data.flush();
            }
        }
    }

    @Override
    public void processElement(StreamRecord<Tuple3<Long, Integer, Long>> element) {
        long user = element.getValue().f0;
        int group = group(user, Line.maxParallelism(getRuntimeContext()));
        long sum = sums.computeIfAbsent(group, number -> new TreeMap<>())
                .merge(user, element.getValue().f2, Long::sum);
        if (keyed) {
            output.collect(new StreamRecord<>("raw " + user + " sum " + sum));
        }
    }
}
