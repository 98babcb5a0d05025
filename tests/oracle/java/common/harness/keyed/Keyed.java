package harness.keyed;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.KeySet;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * The same operator several times, each keyed by another type of `Keys`. Parameters: `seed`, `keys`, and the names of
 * the types as switches. An operator's name is "by " and its type.
 */
public final class Keyed implements Scenario {
    private static List<String> types(Job job) {
        List<String> types = new ArrayList<>(job.parameters.keySet());
        types.removeAll(List.of("seed", "keys"));
        return types;
    }

    /** Keys for all users of both phases: `Events` has two more users in the second phase. */
    private static KeySet<?> keys(Job job, String type) {
        return new KeySet<>(type, job.parameter("seed", 1), (int) job.parameter("keys", Events.USERS) + 2);
    }

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        Events events = new Events(job);
        // From one subtask, because users share keys.
        DataStream<Tuple3<Long, Integer, Long>> stream = Feed.add(
                environment, job, run, "events", Events.TYPE,
                (phase, subtask, parallelism) -> subtask == 0 ? events.of(phase, 0, 1) : List.of());
        for (String type : types(job)) {
            add(stream, "by " + type, keys(job, type), job, run);
        }
    }

    private static <K> void add(
            DataStream<Tuple3<Long, Integer, Long>> events, String name, KeySet<K> keys, Job job, Run run) {
        Results.collect(
                events.keyBy(event -> keys.key(event.f0), keys.information())
                        .transform(name, Types.STRING, new ByKey<>(run, name, keys))
                        .uid(name)
                        .setParallelism(job.parallelism(name)),
                job, run, name);
    }

    @Override
    public Expected expected(Job source) {
        Expected expected = new Expected();
        for (String type : types(source)) {
            expect(expected, "by " + type + "/", keys(source, type), new Events(source).firstPhase());
        }
        return expected;
    }

    private static <K> void expect(
            Expected expected, String operator, KeySet<K> keys, List<Tuple3<Long, Integer, Long>> events) {
        Map<String, List<Tuple3<Long, Integer, Long>>> byKey = new TreeMap<>();
        for (Tuple3<Long, Integer, Long> event : events) {
            byKey.computeIfAbsent(keys.name(keys.key(event.f0)), key -> new ArrayList<>()).add(event);
        }
        byKey.forEach((key, own) -> expect(expected, operator, key, own));
    }

    private static void expect(
            Expected expected, String operator, String key, List<Tuple3<Long, Integer, Long>> events) {
        List<String> history = new ArrayList<>();
        Map<String, Long> amounts = new TreeMap<>();
        Map<String, Map<String, Long>> rounds = new TreeMap<>();
        TreeSet<String> alarms = new TreeSet<>();
        TreeSet<String> far = new TreeSet<>();
        TreeSet<String> ends = new TreeSet<>();
        long sum = 0;
        for (Tuple3<Long, Integer, Long> event : events) {
            sum += event.f2;
            history.add(ByKey.entry(event));
            amounts.put(ByKey.entry(event), event.f2);
            rounds.computeIfAbsent(ByKey.round(event), round -> new TreeMap<>()).put(ByKey.entry(event), event.f2);
            alarms.add("VoidNamespace@" + ByKey.alarm(event));
            far.add("VoidNamespace@" + (ByKey.FAR + event.f0));
            ends.add(ByKey.round(event) + "@" + (ByKey.alarm(event) + 1));
        }
        expected.key(operator + "sum", key, Long.toString(sum));
        expected.key(operator + "history", key, history.toString());
        expected.key(operator + "amounts", key, amounts.toString());
        rounds.forEach((round, value) -> expected.key(operator + "rounds", key + "|" + round, value.toString()));
        expected.key(operator + "alarms/event", key, alarms.toString());
        expected.key(operator + "alarms/processing", key, far.toString());
        expected.key(operator + "ends/event", key, ends.toString());
    }
}
