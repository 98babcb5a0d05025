package harness;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/** Comparison of restored with expected state: the differences, and the number of comparisons of each kind. */
public final class Comparison {
    public final List<String> differences = new ArrayList<>();
    public final Map<String, Long> compared = new TreeMap<>();

    private void count(String what, long number) {
        compared.merge(what, number, Long::sum);
    }

    /**
     * Compares all state. With `perSubtask`, the elements of SPLIT states must lie where Flink's own redistribution
     * from the source's parallelism to the job's puts them; otherwise they may lie in any subtask.
     */
    public void state(Expected expected, RestoredState found, Job source, Job job, boolean perSubtask) {
        differences.addAll(found.contradictions);
        compareKeyed(expected.keyed, found.keyed);
        for (Map.Entry<String, Map<String, List<List<String>>>> operator : expected.split.entrySet()) {
            compareSplit(operator.getKey(), operator.getValue(), found, source, job, perSubtask);
        }
        expected.union.forEach((state, elements) -> compareCopies("union", state, elements, found, job));
        expected.broadcast.forEach((state, entries) -> compareCopies("broadcast", state, entries, found, job));
        TreeSet<String> unknown = new TreeSet<>(found.elements.keySet());
        unknown.removeAll(expected.union.keySet());
        unknown.removeAll(expected.broadcast.keySet());
        expected.split.forEach((operator, states) -> states.keySet().forEach(unknown::remove));
        unknown.forEach(state -> differences.add(state + ": operator state that nobody expected"));
    }

    private void compareKeyed(Map<String, Map<String, String>> expected, Map<String, Map<String, String>> found) {
        TreeSet<String> states = new TreeSet<>(expected.keySet());
        states.addAll(found.keySet());
        for (String state : states) {
            Map<String, String> wanted = expected.getOrDefault(state, Map.of());
            Map<String, String> held = found.getOrDefault(state, Map.of());
            TreeSet<String> keys = new TreeSet<>(wanted.keySet());
            keys.addAll(held.keySet());
            for (String key : keys) {
                if (!wanted.containsKey(key)) {
                    differences.add(String.format("%s: surplus key %s with %s", state, key, held.get(key)));
                } else if (!held.containsKey(key)) {
                    differences.add(String.format("%s: key %s is lost; expected %s", state, key, wanted.get(key)));
                } else if (!wanted.get(key).equals(held.get(key))) {
                    differences.add(String.format(
                            "%s: key %s: expected %s, found %s", state, key, wanted.get(key), held.get(key)));
                }
            }
            count("keyed", keys.size());
        }
    }

    private void compareSplit(
            String operator,
            Map<String, List<List<String>>> states,
            RestoredState found,
            Job source,
            Job job,
            boolean perSubtask) {
        int parallelism = job.parallelism(operator);
        for (String state : states.keySet()) {
            List<String> wanted = new ArrayList<>();
            states.get(state).forEach(wanted::addAll);
            List<String> held = new ArrayList<>();
            found.elements.getOrDefault(state, Map.of()).values().forEach(held::addAll);
            compareUnordered(state + " over all subtasks", wanted, held);
            count("split", wanted.size());
        }
        if (perSubtask) {
            List<Map<String, List<String>>> places =
                    Redistribution.deal(states, source.parallelism(operator), parallelism);
            for (int subtask = 0; subtask < parallelism; subtask++) {
                for (String state : states.keySet()) {
                    compareUnordered(
                            state + " in subtask " + subtask,
                            places.get(subtask).getOrDefault(state, List.of()),
                            found.elements.getOrDefault(state, Map.of()).getOrDefault(subtask, List.of()));
                }
            }
            count("split places", (long) states.size() * parallelism);
        }
    }

    private void compareCopies(String mode, String state, List<String> expected, RestoredState found, Job job) {
        int parallelism = job.parallelism(state.substring(0, state.indexOf('/')));
        Map<Integer, List<String>> held = found.elements.getOrDefault(state, Map.of());
        for (int subtask = 0; subtask < parallelism; subtask++) {
            compareUnordered(state + " in subtask " + subtask, expected, held.getOrDefault(subtask, List.of()));
        }
        count(mode, (long) expected.size() * parallelism);
    }

    /** Compares the results of the second phase with those of an undisturbed run. */
    public void results(List<String> expected, List<String> found) {
        compareUnordered("results", expected, found);
        count("results", expected.size());
    }

    private void compareUnordered(String where, List<String> expected, List<String> found) {
        List<String> lost = new ArrayList<>(expected);
        List<String> surplus = new ArrayList<>(found);
        Collections.sort(lost);
        Collections.sort(surplus);
        if (lost.equals(surplus)) {
            return;
        }
        Map<String, Integer> balance = new TreeMap<>();
        lost.forEach(element -> balance.merge(element, -1, Integer::sum));
        surplus.forEach(element -> balance.merge(element, 1, Integer::sum));
        balance.forEach((element, number) -> {
            if (number != 0) {
                differences.add(String.format(
                        "%s: %s %s x %d", where, number < 0 ? "lost" : "surplus", element, Math.abs(number)));
            }
        });
    }
}
