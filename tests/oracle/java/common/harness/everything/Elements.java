package harness.everything;

import harness.Mix;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.java.tuple.Tuple2;

/** The elements that each subtask of `OperatorLists` starts with: their numbers differ, and some subtasks have none. */
final class Elements {
    private Elements() {}

    static List<Long> numbers(long seed, int subtask) {
        List<Long> elements = new ArrayList<>();
        for (int number = 0; number < (3 * subtask + 5) % 7; number++) {
            elements.add(1000L * subtask + Mix.below(500, seed, subtask, number));
        }
        return elements;
    }

    static List<String> words(long seed, int subtask) {
        List<String> elements = new ArrayList<>();
        for (int number = 0; number < 2 * subtask; number++) {
            elements.add("wörd-" + subtask + "-" + Mix.below(500, seed, subtask, number, 1));
        }
        return elements;
    }

    static List<Tuple2<Integer, String>> pairs(long seed, int subtask) {
        List<Tuple2<Integer, String>> elements = new ArrayList<>();
        for (int number = 0; number < 1 + Mix.below(4, seed, subtask, 7); number++) {
            elements.add(Tuple2.of(number, "p".repeat(Mix.below(40, seed, subtask, number, 2)) + subtask));
        }
        return elements;
    }

    /** Elements that only the last subtask has. */
    static List<String> sparse(int subtask, int parallelism) {
        return subtask == parallelism - 1 ? List.of("first", "second", "second", "third", "fourth") : List.of();
    }

    /** UNION elements: one that only this subtask has, and two equal ones that all subtasks have. */
    static List<String> offsets(int subtask) {
        return List.of("partition-" + subtask, "same", "same");
    }

    static Map<String, Long> rates(long seed) {
        Map<String, Long> entries = new TreeMap<>();
        for (int number = 0; number < 6; number++) {
            entries.put("rate-" + number, Mix.of(seed, number, 3));
        }
        return entries;
    }
}
