package harness;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

/** State that the operators of a restored job report while they open. */
public final class RestoredState {
    /** Keyed values by state ("operator/state") and key. */
    public final Map<String, Map<String, String>> keyed = new TreeMap<>();
    /** Elements of operator state of all modes, by state and subtask. */
    public final Map<String, Map<Integer, List<String>>> elements = new TreeMap<>();
    /** Errors that are noticed while state is reported, such as a key in the wrong subtask. */
    public final List<String> contradictions = new ArrayList<>();

    /** Reports the value of a key; its key group must be in the `range` of the subtask, and no other may report it. */
    public synchronized void key(
            String state, Object key, String shown, String value, KeyGroupRange range, int maxParallelism) {
        int group = KeyGroupRangeAssignment.assignToKeyGroup(key, maxParallelism);
        if (!range.contains(group)) {
            contradictions.add(
                    String.format("%s: key %s of key group %d is held by the owner of %s", state, shown, group, range));
        }
        put(state, shown, value);
    }

    /** Reports the content of a raw key group. */
    public synchronized void group(
            String state, int group, String value, int subtask, int parallelism, int maxParallelism) {
        int owner = KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(maxParallelism, parallelism, group);
        if (owner != subtask) {
            contradictions.add(String.format(
                    "%s: key group %d of subtask %d is held by subtask %d", state, group, owner, subtask));
        }
        put(state, "group " + group, value);
    }

    private void put(String state, String key, String value) {
        String other = keyed.computeIfAbsent(state, name -> new TreeMap<>()).put(key, value);
        if (other != null) {
            contradictions.add(String.format("%s: key %s is held twice: %s and %s", state, key, other, value));
        }
    }

    public synchronized void elements(String state, int subtask, List<String> found) {
        List<String> sorted = new ArrayList<>(found);
        Collections.sort(sorted);
        elements.computeIfAbsent(state, name -> new TreeMap<>()).put(subtask, sorted);
    }
}
