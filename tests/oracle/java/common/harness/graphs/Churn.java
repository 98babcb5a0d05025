package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Line;
import harness.Mix;
import harness.ReportingOperator;
import harness.Results;
import harness.RocksDbAccess;
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
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;

/**
 * State that comes and goes between snapshots: in the first phase and in each wave every user has an event, which adds
 * to a sum, a list, a map and a list with a time to live, and sets and deletes timers, or clears all state of the user.
 * Parameters: `seed`, `keys`, and `waves`, how many follow the first phase; of a restored job `lived`, how many waves
 * there were before. The second phase is empty. With `turn`, there are more states: one that ends with that wave, one
 * that begins with it, a list and a map that are cleared and added to at once, a value with a long time to live, and a
 * value and a list with a short one, of `brief` milliseconds. The latter two depend on the clock and are not compared.
 * Before the first visit of the wave `compacts`, RocksDB compacts them and drops what has expired.
 */
public final class Churn implements Scenario {
    private static final String NAME = "visits";
    /** Time of processing-time timers, so far in the future that they never fire. */
    private static final long FAR = 4_000_000_000_000L;

    private static final long DAYS = 30_000;

    private static final ValueStateDescriptor<Long> SUM = new ValueStateDescriptor<>("sum", Types.LONG);
    private static final ListStateDescriptor<String> HISTORY = new ListStateDescriptor<>("history", Types.STRING);
    private static final MapStateDescriptor<String, Long> AMOUNTS =
            new MapStateDescriptor<>("amounts", Types.STRING, Types.LONG);
    private static final ListStateDescriptor<String> RECENT = new ListStateDescriptor<>("recent", Types.STRING);
    private static final List<StateDescriptor<?, ?>> STATES = List.of(SUM, HISTORY, AMOUNTS, RECENT);

    private static final ValueStateDescriptor<String> EARLY = new ValueStateDescriptor<>("early", Types.STRING);
    private static final ValueStateDescriptor<String> LATE = new ValueStateDescriptor<>("late", Types.STRING);
    private static final ListStateDescriptor<String> LATEST = new ListStateDescriptor<>("latest", Types.STRING);
    private static final MapStateDescriptor<String, Long> NOTES =
            new MapStateDescriptor<>("notes", Types.STRING, Types.LONG);
    private static final ValueStateDescriptor<String> SEEN = new ValueStateDescriptor<>("seen", Types.STRING);
    private static final String BRIEF = "brief";
    private static final String FLEETING = "fleeting";
    private static final List<StateDescriptor<?, ?>> MORE = List.of(EARLY, LATEST, NOTES, SEEN);

    static {
        RECENT.enableTimeToLive(Line.timeToLive(DAYS));
        SEEN.enableTimeToLive(Line.timeToLive(DAYS));
    }

    /** Event of a user in a wave; the first phase is wave 0. */
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

        boolean isKeptBriefly() {
            return amount % 4 == 0;
        }

        boolean clearsList() {
            return amount % 3 == 0;
        }

        boolean clearsMap() {
            return amount % 3 == 1;
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
        int turn = (int) job.parameter("turn", 0);
        Results.collect(
                Feed.add(
                                environment, job, run, "events", Events.TYPE,
                                (phase, subtask, parallelism) -> events(seed, users, lived, phase, subtask, parallelism))
                        .keyBy(event -> Events.name(event.f0), Types.STRING)
                        .transform(
                                NAME,
                                Types.STRING,
                                new Compacting(
                                        run,
                                        listed(turn, lived),
                                        new Visits(turn, job.parameter("brief", 1_500)),
                                        job.parameter("compacts", -1)))
                        .uid(NAME)
                        .setParallelism(job.parallelism(NAME)),
                job, run, NAME);
    }

    /** Returns the states that a restored job lists. Listing a state registers it, so later states are left out. */
    private static List<StateDescriptor<?, ?>> listed(int turn, int lived) {
        List<StateDescriptor<?, ?>> listed = new ArrayList<>(STATES);
        if (turn > 0) {
            listed.addAll(MORE);
        }
        if (turn > 0 && (lived == 0 || lived >= turn)) {
            listed.add(LATE);
        }
        return listed;
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
        int turn = (int) source.parameter("turn", 0);
        listed(turn, 0).forEach(state -> expected.state(NAME + "/" + state.getName()));
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
            if (turn > 0 && !visits.isEmpty()) {
                expectMore(expected, visits, turn);
            }
        }
        return expected;
    }

    /** Adds the further states of a user who has not left since the first of these visits. */
    private static void expectMore(Expected expected, List<Visit> visits, int turn) {
        List<String> latest = new ArrayList<>();
        Map<String, Long> notes = new TreeMap<>();
        for (Visit visit : visits) {
            if (visit.clearsList()) {
                latest.clear();
            }
            latest.add(visit.text());
            if (visit.clearsMap()) {
                notes.clear();
            }
            notes.put(visit.entry(visit.wave), visit.amount);
        }
        Visit last = visits.get(visits.size() - 1);
        String user = Events.name(last.user);
        expected.key(NAME + (last.wave < turn ? "/early" : "/late"), user, last.text());
        expected.key(NAME + "/latest", user, latest.toString());
        expected.key(NAME + "/notes", user, notes.toString());
        expected.key(NAME + "/seen", user, last.text());
    }

    /** Adds the state of a user who has not left since the first of these visits. */
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

    /** Lets RocksDB compact the states with a short time to live in the wave `compacts`. */
    private static final class Compacting extends ReportingOperator<String, Tuple3<Long, Integer, Long>> {
        private static final long serialVersionUID = 1L;
        private final long compacts;
        private transient boolean hasCompacted;

        private Compacting(Run run, List<StateDescriptor<?, ?>> listed, Visits visits, long compacts) {
            super(run, NAME, visits, listed);
            this.compacts = compacts;
        }

        @Override
        public void processElement(StreamRecord<Tuple3<Long, Integer, Long>> event) throws Exception {
            if (!hasCompacted && event.getValue().f1 == compacts) {
                hasCompacted = true;
                RocksDbAccess.compact(getKeyedStateBackend(), BRIEF, FLEETING);
            }
            super.processElement(event);
        }
    }

    private static final class Visits extends KeyedProcessFunction<String, Tuple3<Long, Integer, Long>, String> {
        private static final long serialVersionUID = 1L;
        private final int turn;
        private final ValueStateDescriptor<String> brief = new ValueStateDescriptor<>(BRIEF, Types.STRING);
        private final ListStateDescriptor<String> fleeting = new ListStateDescriptor<>(FLEETING, Types.STRING);

        private Visits(int turn, long briefMillis) {
            this.turn = turn;
            brief.enableTimeToLive(Line.shortTimeToLive(briefMillis));
            fleeting.enableTimeToLive(Line.shortTimeToLive(briefMillis));
        }

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
            if (turn > 0) {
                addMore(visit);
            }
        }

        private void addMore(Visit visit) throws Exception {
            if (visit.wave < turn) {
                getRuntimeContext().getState(EARLY).update(visit.text());
            } else {
                getRuntimeContext().getState(EARLY).clear();
                getRuntimeContext().getState(LATE).update(visit.text());
            }
            if (visit.clearsList()) {
                getRuntimeContext().getListState(LATEST).clear();
            }
            getRuntimeContext().getListState(LATEST).add(visit.text());
            if (visit.clearsMap()) {
                getRuntimeContext().getMapState(NOTES).clear();
            }
            getRuntimeContext().getMapState(NOTES).put(visit.entry(visit.wave), visit.amount);
            getRuntimeContext().getState(SEEN).update(visit.text());
            if (visit.isKeptBriefly()) {
                getRuntimeContext().getState(brief).update(visit.text());
                getRuntimeContext().getListState(fleeting).add(visit.text());
            }
        }

        private void clearMore(Visit visit) throws Exception {
            getRuntimeContext().getState(EARLY).clear();
            if (visit.wave >= turn) {
                getRuntimeContext().getState(LATE).clear();
            }
            getRuntimeContext().getListState(LATEST).clear();
            getRuntimeContext().getMapState(NOTES).clear();
            getRuntimeContext().getState(SEEN).clear();
            getRuntimeContext().getState(brief).clear();
            getRuntimeContext().getListState(fleeting).clear();
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
            if (turn > 0) {
                clearMore(visit);
            }
        }
    }
}
