package harness;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.runtime.checkpoint.RoundRobinOperatorStateRepartitioner;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.OperatorStreamStateHandle;
import org.apache.flink.runtime.state.memory.ByteStreamStateHandle;

/**
 * Asks Flink's own `RoundRobinOperatorStateRepartitioner` who gets which elements. The handles point to no data: an
 * element's offset is its number, which is all that the class looks at.
 */
public final class Redistribution {
    private Redistribution() {}

    /** One state of one old subtask: `elements` many, numbered from 0. */
    public record Part(String name, String mode, int elements) {}

    /** One piece that a new subtask gets: elements `numbers` of `name` of the old subtask `from`. */
    public record Piece(String name, int from, List<Long> numbers) {}

    /** The pieces of every new subtask. `old` holds the parts of each old subtask in the order of the handle. */
    public static List<List<Piece>> pieces(List<List<Part>> old, int oldParallelism, int newParallelism) {
        List<List<OperatorStateHandle>> handles = new ArrayList<>();
        for (int subtask = 0; subtask < oldParallelism; subtask++) {
            List<Part> parts = old.get(subtask);
            handles.add(parts.isEmpty() ? Collections.emptyList() : List.of(handle(subtask, parts)));
        }
        List<List<Piece>> answer = new ArrayList<>();
        for (List<OperatorStateHandle> given : RoundRobinOperatorStateRepartitioner.INSTANCE.repartitionState(
                handles, oldParallelism, newParallelism)) {
            List<Piece> pieces = new ArrayList<>();
            for (OperatorStateHandle handle : given) {
                int from = Integer.parseInt(
                        ((ByteStreamStateHandle) handle.getDelegateStateHandle()).getHandleName());
                handle.getStateNameToPartitionOffsets().forEach((name, info) -> {
                    List<Long> numbers = new ArrayList<>();
                    for (long offset : info.getOffsets()) {
                        numbers.add(offset);
                    }
                    pieces.add(new Piece(name, from, numbers));
                });
            }
            answer.add(pieces);
        }
        return answer;
    }

    private static OperatorStateHandle handle(int subtask, List<Part> parts) {
        Map<String, OperatorStateHandle.StateMetaInfo> states = new HashMap<>();
        for (Part part : parts) {
            long[] offsets = new long[part.elements()];
            for (int number = 0; number < offsets.length; number++) {
                offsets[number] = number;
            }
            states.put(
                    part.name(),
                    new OperatorStateHandle.StateMetaInfo(offsets, OperatorStateHandle.Mode.valueOf(part.mode())));
        }
        return new OperatorStreamStateHandle(states, new ByteStreamStateHandle(Integer.toString(subtask), new byte[0]));
    }

    /**
     * The elements of SPLIT states after one redistribution, by new subtask and state. The states' names are those of
     * the snapshot: what follows the operator's name in "operator/state".
     */
    public static List<Map<String, List<String>>> deal(
            Map<String, List<List<String>>> states, int oldParallelism, int newParallelism) {
        Map<String, String> full = new LinkedHashMap<>();
        states.keySet().forEach(state -> full.put(state.substring(state.indexOf('/') + 1), state));
        List<List<Part>> old = new ArrayList<>();
        for (int subtask = 0; subtask < oldParallelism; subtask++) {
            List<Part> parts = new ArrayList<>();
            for (Map.Entry<String, String> name : full.entrySet()) {
                int elements = states.get(name.getValue()).get(subtask).size();
                parts.add(new Part(name.getKey(), "SPLIT_DISTRIBUTE", elements));
            }
            old.add(parts);
        }
        List<Map<String, List<String>>> answer = new ArrayList<>();
        for (List<Piece> pieces : pieces(old, oldParallelism, newParallelism)) {
            Map<String, List<String>> held = new HashMap<>();
            for (Piece piece : pieces) {
                String state = full.get(piece.name());
                List<String> elements = held.computeIfAbsent(state, name -> new ArrayList<>());
                piece.numbers().forEach(
                        number -> elements.add(states.get(state).get(piece.from()).get(number.intValue())));
            }
            answer.add(held);
        }
        return answer;
    }
}
