package harness.everything;

import harness.Events;
import harness.Expected;
import harness.Job;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.IntFunction;
import org.apache.flink.api.java.tuple.Tuple3;

/** Computes from the seed the state of `everything` between its phases. */
final class Model {
    private static final String STATES = KeyedStates.NAME + "/";

    private final Job source;
    private final long seed;
    private final Expected expected = new Expected();

    Model(Job source) {
        this.source = source;
        this.seed = source.parameter("seed", 1);
    }

    Expected expected() {
        Map<Long, List<Tuple3<Long, Integer, Long>>> byUser = new TreeMap<>();
        for (Tuple3<Long, Integer, Long> event : new Events(source).firstPhase()) {
            byUser.computeIfAbsent(event.f0, user -> new ArrayList<>()).add(event);
        }
        byUser.forEach(this::user);
        if (source.has("raw_keyed")) {
            rawKeyed(byUser);
        }
        operatorLists();
        return expected;
    }

    private void user(long user, List<Tuple3<Long, Integer, Long>> events) {
        String key = Events.name(user);
        List<String> history = new ArrayList<>();
        Map<String, String> kinds = new TreeMap<>();
        Map<String, String> kindsForAWhile = new TreeMap<>();
        Map<String, Long> byParity = new TreeMap<>();
        TreeSet<String> alarms = new TreeSet<>();
        TreeSet<String> rounds = new TreeSet<>();
        List<String> lazy = new ArrayList<>();
        long sum = 0;
        long last = 0;
        for (Tuple3<Long, Integer, Long> event : events) {
            int number = event.f1;
            last = event.f2;
            sum += last;
            history.add(number + ":" + last);
            lazy.add("lazy-" + number);
            kinds.put(KeyedStates.kind(number), last % 4 == 0 ? "null" : Long.toString(last));
            kindsForAWhile.put(KeyedStates.kind(number), Long.toString(last));
            byParity.put(KeyedStates.parity(number), last);
            alarms.add("VoidNamespace@" + KeyedStates.alarm(user, number));
            rounds.add(KeyedStates.parity(number) + "@" + (KeyedStates.alarm(user, number) + 1));
        }
        expected.key(STATES + "last", key, Long.toString(last));
        expected.key(STATES + "history", key, history.toString());
        expected.key(STATES + "kinds", key, kinds.toString());
        expected.key(STATES + "sum", key, Long.toString(sum));
        expected.key(STATES + "average", key, sum + "/" + events.size());
        if (user % 2 == 0) {
            expected.key(STATES + "last-for-a-while", key, Long.toString(last));
            expected.key(STATES + "history-for-a-while", key, history.toString());
            expected.key(STATES + "kinds-for-a-while", key, kindsForAWhile.toString());
        }
        byParity.forEach((round, value) -> expected.key(STATES + "by-parity", key + "|" + round, value.toString()));
        expected.key(STATES + "alarms/event", key, alarms.toString());
        expected.key(STATES + "alarms/processing", key, "[VoidNamespace@" + (KeyedStates.FAR + user) + "]");
        expected.key(STATES + "rounds/event", key, rounds.toString());
        if (user % 4 == 1) {
            expected.key(STATES + "lazy-list", key, lazy.toString());
        }
        if (user % 4 == 2) {
            expected.key(STATES + "lazy-value", key, Long.toString(last));
        }
    }

    private void rawKeyed(Map<Long, List<Tuple3<Long, Integer, Long>>> byUser) {
        Map<Integer, TreeMap<Long, Long>> groups = new TreeMap<>();
        byUser.forEach((user, events) -> groups.computeIfAbsent(
                        RawStates.group(user, source.maxParallelism(RawStates.NAME)), group -> new TreeMap<>())
                .put(user, events.stream().mapToLong(event -> event.f2).sum()));
        groups.forEach((group, sums) -> expected.key(RawStates.NAME + "/keyed", "group " + group, sums.toString()));
    }

    private void operatorLists() {
        int parallelism = source.parallelism(OperatorLists.NAME);
        split(OperatorLists.NAME, "numbers", parallelism, subtask -> Elements.numbers(seed, subtask));
        split(OperatorLists.NAME, "words", parallelism, subtask -> Elements.words(seed, subtask));
        split(OperatorLists.NAME, "pairs", parallelism, subtask -> Elements.pairs(seed, subtask));
        split(OperatorLists.NAME, "sparse", parallelism, subtask -> Elements.sparse(subtask, parallelism));
        split(OperatorLists.NAME, "void", parallelism, subtask -> List.of());
        List<String> offsets = new ArrayList<>();
        for (int subtask = 0; subtask < parallelism; subtask++) {
            offsets.addAll(Elements.offsets(subtask));
        }
        expected.union.put(OperatorLists.NAME + "/offsets", offsets);
        expected.union.put(OperatorLists.NAME + "/no-offsets", List.of());
        List<String> rates = new ArrayList<>();
        Elements.rates(seed).entrySet().forEach(entry -> rates.add(entry.toString()));
        expected.broadcast.put(OperatorLists.NAME + "/rates", rates);
        expected.broadcast.put(OperatorLists.NAME + "/no-rates", List.of());
        List<String> rules = new ArrayList<>();
        Rules.rules(1, 0).forEach(rule -> rules.add(rule.value() + "=" + rule.value().length()));
        expected.broadcast.put(Rules.NAME + "/" + Rules.BY_NAME.getName(), rules);
        if (source.has("raw_operator")) {
            split(RawStates.NAME, "_default_", source.parallelism(RawStates.NAME),
                    subtask -> RawStates.strings(seed, subtask));
        }
    }

    private void split(String operator, String state, int parallelism, IntFunction<List<?>> elements) {
        List<List<String>> bySubtask = new ArrayList<>();
        for (int subtask = 0; subtask < parallelism; subtask++) {
            List<String> shown = new ArrayList<>();
            elements.apply(subtask).forEach(element -> shown.add(element.toString()));
            bySubtask.add(shown);
        }
        expected.split(operator, operator + "/" + state, bySubtask);
    }
}
