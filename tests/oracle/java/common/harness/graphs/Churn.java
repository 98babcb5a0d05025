package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Line;
import harness.Mix;
import harness.ReportingOperator;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * State that comes and goes between snapshots: an event per user in the first phase and in each wave, which adds to a
 * sum, a list, a map and a list with a time to live, sets timers and takes others away; or clears all that the user has.
 * Parameters: `seed`, `keys`, and `waves`, how many follow the first phase; of a restored job `lived`, how many there
 * were before. The second phase is empty.
 */
public final class Churn implements Scenario {
    private static final String NAME = "visits";
    /** The processing-time timers: a day that these tests do not live to see. */
    private static final long FAR = 4_000_000_000_000L;

    private static final long DAYS = 30_000;

    private static final ValueStateDescriptor<Long> SUM = new ValueStateDescriptor<>("sum", Types.LONG);
    private static final ListStateDescriptor<String> HISTORY = new ListStateDescriptor<>("history", Types.STRING);
    private static final MapStateDescriptor<String, Long> AMOUNTS =
            new MapStateDescriptor<>("amounts", Types.STRING, Types.LONG);
    private static final ListStateDescriptor<String> RECENT = new ListStateDescriptor<>("recent", Types.STRING);
    private static final List<StateDescriptor<?, ?>> STATES = List.of(SUM, HISTORY, AMOUNTS, RECENT);

    static {
        RECENT.enableTimeToLive(Line.timeToLive(DAYS));
    }

    /** What a user does in a wave; the first phase is wave 0. */
    private record Visit(long user, int wave, long amount) {
        static Visit of(long seed, long user, int wave) {
            return new Visit(user, wave, Mix.below(1000, seed, user, wave));
        }

        boolean leaves() {
            return wave > 0 && amount % 5 == 0;
        }

        boolean forgetsLast() {
            return wave > 0 && amount % 2 == 0;
        }

        String text() {
            return wave + ":" + amount;
        }

        String entry(int ofWave) {
            return "wave-" + ofWave;
        }

        long alarm(int ofWave) {
            return 3 * Feed.PAUSE + 10 * user + ofWave;
        }
    }

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        long seed = job.parameter("seed", 1);
        long users = job.parameter("keys", Events.USERS);
        int lived = (int) job.parameter("lived", 0);
        Results.collect(
                Feed.add(
                                environment, job, run, "events", Events.TYPE,
                                (phase, subtask, parallelism) -> events(seed, users, lived, phase, subtask, parallelism))
                        .keyBy(event -> Events.name(event.f0), Types.STRING)
                        .transform(
                                NAME, Types.STRING, new ReportingOperator<>(run, NAME, new Visits(), STATES))
                        .uid(NAME)
                        .setParallelism(job.parallelism(NAME)),
                job, run, NAME);
    }

    private static List<Feed.Timed<Tuple3<Long, Integer, Long>>> events(
            long seed, long users, int lived, int phase, int subtask, int parallelism) {
        List<Feed.Timed<Tuple3<Long, Integer, Long>>> events = new ArrayList<>();
        for (long user = subtask; phase != 2 && user < users; user += parallelism) {
            Visit visit = Visit.of(seed, user, lived + Feed.wave(phase));
            events.add(new Feed.Timed<>(Tuple3.of(user, visit.wave, visit.amount), 1_000));
        }
        return events;
    }

    @Override
    public Expected expected(Job source) {
        Expected expected = new Expected();
        STATES.forEach(state -> expected.state(NAME + "/" + state.getName()));
        long seed = source.parameter("seed", 1);
        for (long user = 0; user < source.parameter("keys", Events.USERS); user++) {
            List<Visit> visits = new ArrayList<>();
            for (int wave = 0; wave <= source.parameter("waves", 0); wave++) {
                Visit visit = Visit.of(seed, user, wave);
                if (visit.leaves()) {
                    visits.clear();
                } else {
                    visits.add(visit);
                }
            }
            expect(expected, visits);
        }
        return expected;
    }

    /** What is left of a user who has not left since the first of these visits. */
    private static void expect(Expected expected, List<Visit> visits) {
        List<String> texts = new ArrayList<>();
        Map<String, Long> amounts = new TreeMap<>();
        TreeSet<String> alarms = new TreeSet<>();
        long sum = 0;
        for (Visit visit : visits) {
            sum += visit.amount;
            texts.add(visit.text());
            amounts.put(visit.entry(visit.wave), visit.amount);
            alarms.add(timer(visit.alarm(visit.wave)));
            if (visit.forgetsLast()) {
                amounts.remove(visit.entry(visit.wave - 1));
                alarms.remove(timer(visit.alarm(visit.wave - 1)));
            }
        }
        if (visits.isEmpty()) {
            return;
        }
        long user = visits.get(0).user;
        expected.key(NAME + "/sum", Events.name(user), Long.toString(sum));
        expected.key(NAME + "/history", Events.name(user), texts.toString());
        expected.key(NAME + "/amounts", Events.name(user), amounts.toString());
        expected.key(NAME + "/recent", Events.name(user), texts.toString());
        String timers = NAME + "/" + ReportingOperator.TIMERS;
        expected.key(timers + "/event", Events.name(user), alarms.toString());
        expected.key(timers + "/processing", Events.name(user), "[" + timer(FAR + user) + "]");
    }

    private static String timer(long time) {
        return "VoidNamespace@" + time;
    }

    private static final class Visits extends KeyedProcessFunction<String, Tuple3<Long, Integer, Long>, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(Tuple3<Long, Integer, Long> event, Context context, Collector<String> out)
                throws Exception {
            Visit visit = new Visit(event.f0, event.f1, event.f2);
            if (visit.leaves()) {
                leave(visit, context);
                return;
            }
            ValueState<Long> sum = getRuntimeContext().getState(SUM);
            sum.update((sum.value() == null ? 0 : sum.value()) + visit.amount);
            getRuntimeContext().getListState(HISTORY).add(visit.text());
            getRuntimeContext().getMapState(AMOUNTS).put(visit.entry(visit.wave), visit.amount);
            getRuntimeContext().getListState(RECENT).add(visit.text());
            context.timerService().registerEventTimeTimer(visit.alarm(visit.wave));
            context.timerService().registerProcessingTimeTimer(FAR + visit.user);
            if (visit.forgetsLast()) {
                getRuntimeContext().getMapState(AMOUNTS).remove(visit.entry(visit.wave - 1));
                context.timerService().deleteEventTimeTimer(visit.alarm(visit.wave - 1));
            }
        }

        private void leave(Visit visit, Context context) throws Exception {
            getRuntimeContext().getState(SUM).clear();
            getRuntimeContext().getListState(HISTORY).clear();
            getRuntimeContext().getMapState(AMOUNTS).clear();
            getRuntimeContext().getListState(RECENT).clear();
            for (int wave = 0; wave < visit.wave; wave++) {
                context.timerService().deleteEventTimeTimer(visit.alarm(wave));
            }
            context.timerService().deleteProcessingTimeTimer(FAR + visit.user);
        }
    }
}
