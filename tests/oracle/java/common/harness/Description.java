package harness;

import java.io.DataInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.metadata.CheckpointMetadata;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyGroupsStateHandle;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.OperatorStateHandle;

/** Content of a snapshot's `_metadata` by Flink's own reader, as plain lists and maps. */
public final class Description {
    private Description() {}

    public static Map<String, Object> of(Path snapshot) throws Exception {
        CheckpointMetadata metadata;
        int version;
        Path file = snapshot.resolve("_metadata");
        try (DataInputStream in = new DataInputStream(Files.newInputStream(file))) {
            in.readInt();
            version = in.readInt();
        }
        try (DataInputStream in = new DataInputStream(Files.newInputStream(file))) {
            metadata = Checkpoints.loadCheckpointMetadata(
                    in, Description.class.getClassLoader(), snapshot.toUri().toString());
        }
        Map<String, Object> operators = new TreeMap<>();
        for (OperatorState operator : metadata.getOperatorStates()) {
            operators.put(operator.getOperatorID().toString(), operator(operator));
        }
        Map<String, Object> description = new LinkedHashMap<>();
        description.put("version", version);
        description.put("checkpoint_id", metadata.getCheckpointId());
        description.put("operators", operators);
        return description;
    }

    private static Map<String, Object> operator(OperatorState operator) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("parallelism", operator.getParallelism());
        shown.put("max_parallelism", operator.getMaxParallelism());
        shown.put("coordinator", operator.getCoordinatorState() != null);
        shown.put("fully_finished", operator.isFullyFinished());
        Map<Integer, Object> subtasks = new TreeMap<>();
        operator.getSubtaskStates().forEach((index, state) -> subtasks.put(index, subtask(state)));
        shown.put("subtasks", subtasks);
        return shown;
    }

    private static Map<String, Object> subtask(OperatorSubtaskState state) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("finished", state.isFinished());
        shown.put("managed_keyed", keyed(state.getManagedKeyedState(), 0));
        shown.put("raw_keyed", keyed(state.getRawKeyedState(), -1));
        shown.put("managed_operator", operatorStates(state.getManagedOperatorState()));
        shown.put("raw_operator", operatorStates(state.getRawOperatorState()));
        shown.put("channels", state.getInputChannelState().size() + state.getResultSubpartitionState().size());
        return shown;
    }

    /** Describes handles; `none` is the offset of an absent key group: only raw keyed state may begin at 0. */
    private static List<Object> keyed(Iterable<KeyedStateHandle> handles, long none) {
        List<Object> shown = new ArrayList<>();
        for (KeyedStateHandle handle : handles) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("class", handle.getClass().getSimpleName());
            one.put("first", handle.getKeyGroupRange().getStartKeyGroup());
            one.put("last", handle.getKeyGroupRange().getEndKeyGroup());
            if (handle instanceof KeyGroupsStateHandle groups) {
                int written = 0;
                for (int group : handle.getKeyGroupRange()) {
                    written += groups.getOffsetForKeyGroup(group) > none ? 1 : 0;
                }
                one.put("groups", written);
            }
            if (handle instanceof IncrementalRemoteKeyedStateHandle incremental) {
                one.put("shared", incremental.getSharedState().size());
                one.put("private", incremental.getPrivateState().size());
            }
            shown.add(one);
        }
        return shown;
    }

    private static List<Object> operatorStates(Iterable<OperatorStateHandle> handles) {
        List<Object> shown = new ArrayList<>();
        for (OperatorStateHandle handle : handles) {
            Map<String, Object> states = new TreeMap<>();
            handle.getStateNameToPartitionOffsets().forEach((name, info) -> states.put(
                    name, info.getDistributionMode().name() + " x " + info.getOffsets().length));
            shown.add(states);
        }
        return shown;
    }
}
