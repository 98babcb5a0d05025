package harness;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** State that a snapshot must hold, by state ("operator/state"), as text in the form of `RestoredState`. */
public final class Expected {
    /** Keyed values by state and key. */
    public final Map<String, Map<String, String>> keyed = new TreeMap<>();
    /** SPLIT states by operator, in the order of registration: elements by state and old subtask. */
    public final Map<String, Map<String, List<List<String>>>> split = new TreeMap<>();
    /** UNION states: the elements of all old subtasks, by state. */
    public final Map<String, List<String>> union = new TreeMap<>();
    /** BROADCAST states: the entries of a copy, by state. */
    public final Map<String, List<String>> broadcast = new TreeMap<>();

    public void key(String state, String key, String value) {
        keyed.computeIfAbsent(state, name -> new TreeMap<>()).put(key, value);
    }

    /** Adds a state that may have no keys, so that surplus keys in it are noticed. */
    public void state(String state) {
        keyed.computeIfAbsent(state, name -> new TreeMap<>());
    }

    public void split(String operator, String state, List<List<String>> bySubtask) {
        split.computeIfAbsent(operator, name -> new TreeMap<>()).put(state, new ArrayList<>(bySubtask));
    }
}
