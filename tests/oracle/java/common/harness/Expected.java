package harness;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The state that a snapshot must hold, by state ("operator/state"), in the words that `Found` uses. */
public final class Expected {
    /** State to key to value. */
    public final Map<String, Map<String, String>> keyed = new TreeMap<>();
    /** SPLIT states by operator, in the order of registration: state to the elements of each old subtask. */
    public final Map<String, Map<String, List<List<String>>>> split = new TreeMap<>();
    /** UNION states: every element of all old subtasks. */
    public final Map<String, List<String>> union = new TreeMap<>();
    /** BROADCAST states: the entries, the same everywhere. */
    public final Map<String, List<String>> broadcast = new TreeMap<>();

    public void key(String state, String key, String value) {
        keyed.computeIfAbsent(state, name -> new TreeMap<>()).put(key, value);
    }

    /** Says that a state exists, so that surplus keys in it are noticed even if none is expected. */
    public void state(String state) {
        keyed.computeIfAbsent(state, name -> new TreeMap<>());
    }

    public void split(String operator, String state, List<List<String>> bySubtask) {
        split.computeIfAbsent(operator, name -> new TreeMap<>()).put(state, new ArrayList<>(bySubtask));
    }
}
