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
 * Asks Flink's own `RoundRobinOperatorStateRepartitioner` which subtask gets which elements. The handles point to no
 * data: the class only uses offsets, and an element's offset is its number.
 */
public final class Redistribution {
    private Redistribution() {}

    /** A state of an old subtask, with this number of `elements`, numbered from 0. */
    public record Part(String name, String mode, int elements) {}

    /** A piece for a new subtask: elements `numbers` of the state `name` of the old subtask `from`. */
    public record Piece(String name, int from, List<Long> numbers) {}

    /** Returns the pieces of every new subtask; `old` has the states of each old subtask. */
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
     * Returns the elements of SPLIT states after one redistribution, by new subtask and state. Flink gets the states'
     * names without the operator's name, as in the snapshot.
     */
    public static List<Map<String, List<String>>> deal(
            Map<String, List<List<String>>> states, int oldParallelism, int newParallelism) {
        Map<String, String> fullNames = new LinkedHashMap<>();
        states.keySet().forEach(state -> fullNames.put(state.substring(state.indexOf('/') + 1), state));
        List<List<Part>> old = new ArrayList<>();
        for (int subtask = 0; subtask < oldParallelism; subtask++) {
            List<Part> parts = new ArrayList<>();
            for (Map.Entry<String, String> name : fullNames.entrySet()) {
                int elements = states.get(name.getValue()).get(subtask).size();
                parts.add(new Part(name.getKey(), "SPLIT_DISTRIBUTE", elements));
            }
            old.add(parts);
        }
        List<Map<String, List<String>>> answer = new ArrayList<>();
        for (List<Piece> pieces : pieces(old, oldParallelism, newParallelism)) {
            Map<String, List<String>> held = new HashMap<>();
            for (Piece piece : pieces) {
                String state = fullNames.get(piece.name());
                List<String> elements = held.computeIfAbsent(state, name -> new ArrayList<>());
                piece.numbers().forEach(
                        number -> elements.add(states.get(state).get(piece.from()).get(number.intValue())));
            }
            answer.add(held);
        }
        return answer;
    }
}
