package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Line;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.evictors.TimeEvictor;
import org.apache.flink.streaming.api.windowing.triggers.ContinuousEventTimeTrigger;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.triggers.PurgingTrigger;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * Sessions that an event between them merges, before and after the pause, also when they have fired and wait for late
 * events; windows and triggers with state of their own; and a function of two streams that both set timers. Elements and
 * some keys are Java records. Parameters: `seed`, `keys`, `wave` (the last events of the first phase come in a wave), and
 * `continuous` (also a trigger that keeps the time at which it fires next).
 */
public final class Merging implements Scenario {
    private static final long GAP = Feed.PAUSE / 10;
    private static final long LATE = 4 * Feed.PAUSE;
    /** Times of the events of a user in phase 1; the events at `BETWEEN`, of even users only, merge two sessions. */
    private static final long[] BEFORE = {
        5_000, 5_000 + 3 * GAP / 2, 5_000 + 3 * GAP / 4,
        Feed.PAUSE + 2 * GAP, Feed.PAUSE + 7 * GAP / 2, Feed.PAUSE + 11 * GAP / 4,
        Feed.PAUSE + 5 * GAP, Feed.PAUSE + 13 * GAP / 2
    };
    private static final List<Integer> BETWEEN = List.of(2, 5);
    /** Number of the first event that comes in a wave, if the job has one. */
    private static final int WAVE = 5;
    /** Times in phase 2: late, between two sessions that are open, and after both. */
    private static final long[] AFTER = {30_000, Feed.PAUSE + 23 * GAP / 4, Feed.PAUSE + 9 * GAP};

    public record Visit(long user, int number, TimeUnit unit, BigDecimal amount, String[] tags) {
        static Visit of(long user, int number) {
            return new Visit(
                    user, number, number % 2 == 0 ? TimeUnit.DAYS : null, BigDecimal.valueOf(user + number, number),
                    new String[] {"tag-" + user, "𝄞"});
        }

        @Override
        public String toString() {
            return user + "-" + number + " " + unit + " " + amount + " " + List.of(tags);
        }

        String name() {
            return Events.name(user);
        }
    }

    public record Place(String town, long number) {}

    private static List<Feed.Timed<Visit>> visits(Job job, int phase, int subtask, int parallelism) {
        List<Feed.Timed<Visit>> visits = new ArrayList<>();
        boolean wave = job.has("wave");
        for (long user = subtask; user < job.parameter("keys", Events.USERS); user += parallelism) {
            for (int at = 0; at < BEFORE.length; at++) {
                boolean now = wave ? phase == (at < WAVE ? 1 : 3) : phase == 1;
                if (now && (user % 2 == 0 || !BETWEEN.contains(at))) {
                    visits.add(new Feed.Timed<>(Visit.of(user, at), BEFORE[at]));
                }
            }
            for (int at = 0; phase == 2 && at < AFTER.length; at++) {
                visits.add(new Feed.Timed<>(Visit.of(user, BEFORE.length + at), AFTER[at]));
            }
        }
        return visits;
    }

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        TypeInformation<Visit> type = TypeInformation.of(Visit.class);
        DataStream<Visit> visits = Feed.add(
                environment, job, run, "events", type,
                (phase, subtask, parallelism) -> visits(job, phase, subtask, parallelism));
        // Flink does not restore the watermark, and so forgets which events are late.
        DataStream<Visit> timely = visits.filter(visit -> visit.number != BEFORE.length).uid("timely");
        collect(
                "listed",
                visits.keyBy(Visit::name, Types.STRING)
                        .window(Line.session(GAP))
                        .allowedLateness(Line.duration(LATE))
                        .process(new Listed<>(), Types.STRING),
                job,
                run);
        collect(
                "counted",
                visits.keyBy(visit -> new Place(visit.name(), -visit.user), TypeInformation.of(Place.class))
                        .window(Line.session(GAP))
                        .allowedLateness(Line.duration(LATE))
                        .aggregate(new Count(), Types.TUPLE(Types.LONG, Types.BIG_DEC), Types.STRING),
                job,
                run);
        collect(
                "reduced",
                timely.keyBy(
                                visit -> Row.of(visit.name(), visit.user % 3 == 0 ? null : visit.user),
                                Types.ROW(Types.STRING, Types.LONG))
                        .window(Line.session(GAP))
                        .trigger(CountTrigger.of(2))
                        .reduce((one, other) -> one.number < other.number ? other : one, new Listed<>(), Types.STRING),
                job,
                run);
        if (job.has("continuous")) {
            collect(
                    "continuous",
                    timely.keyBy(visit -> Tuple2.of(visit.user, visit.name()), Types.TUPLE(Types.LONG, Types.STRING))
                            .window(Line.session(GAP))
                            .trigger(ContinuousEventTimeTrigger.of(Line.duration(GAP)))
                            .process(new Listed<>(), Types.STRING),
                    job,
                    run);
        }
        collect(
                "sliding",
                visits.keyBy(visit -> BigDecimal.valueOf(visit.user, 2), Types.BIG_DEC)
                        .window(SlidingEventTimeWindows.of(Line.duration(2 * Feed.PAUSE), Line.duration(Feed.PAUSE)))
                        .allowedLateness(Line.duration(LATE))
                        .evictor(TimeEvictor.of(Line.duration(Feed.PAUSE / 2)))
                        .process(new OfWindow<>(), Types.STRING),
                job,
                run);
        collect(
                "global",
                timely.keyBy(Visit::name, Types.STRING)
                        .window(GlobalWindows.create())
                        .trigger(PurgingTrigger.of(CountTrigger.of(3)))
                        .process(new Listed<>(), Types.STRING),
                job,
                run);
        collect(
                "both",
                timely.keyBy(Visit::user, Types.LONG)
                        .connect(timely.map(visit -> visit.user)
                                .returns(Types.LONG)
                                .uid("users")
                                .keyBy(user -> user, Types.LONG))
                        .process(new Both(), Types.STRING),
                job,
                run);
    }

    private static void collect(String name, SingleOutputStreamOperator<String> windows, Job job, Run run) {
        Results.collect(windows.uid(name).setParallelism(job.parallelism(name)), job, run, name);
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    private static List<String> sorted(Iterable<Visit> visits) {
        List<String> texts = new ArrayList<>();
        visits.forEach(visit -> texts.add(visit.toString()));
        Collections.sort(texts);
        return texts;
    }

    /** Lists a window's content, and how often a window of the key has fired. */
    private static final class Listed<K, W extends Window> extends ProcessWindowFunction<Visit, String, K, W> {
        private static final long serialVersionUID = 1L;

        @Override
        public void process(K key, Context context, Iterable<Visit> visits, Collector<String> out) throws Exception {
            ValueState<Long> fired = context.globalState().getState(new ValueStateDescriptor<>("fired", Types.LONG));
            fired.update(fired.value() == null ? 1 : fired.value() + 1);
            out.collect(key + " in " + context.window() + " " + fired.value() + ": " + sorted(visits));
        }
    }

    /** Also counts how often this window has fired, and keeps what it had. */
    private static final class OfWindow<K, W extends Window> extends ProcessWindowFunction<Visit, String, K, W> {
        private static final long serialVersionUID = 1L;
        private static final ListStateDescriptor<String> SEEN = new ListStateDescriptor<>("seen", Types.STRING);
        private static final MapStateDescriptor<String, Integer> TIMES =
                new MapStateDescriptor<>("times", Types.STRING, Types.INT);

        @Override
        public void process(K key, Context context, Iterable<Visit> visits, Collector<String> out) throws Exception {
            context.windowState().getListState(SEEN).add(sorted(visits).toString());
            context.windowState().getMapState(TIMES).put(sorted(visits).toString(), 1);
            List<String> seen = new ArrayList<>();
            context.windowState().getListState(SEEN).get().forEach(seen::add);
            List<String> times = new ArrayList<>();
            context.windowState().getMapState(TIMES).keys().forEach(times::add);
            Collections.sort(times);
            out.collect(key + " in " + context.window() + " " + seen + " " + times);
        }

        @Override
        public void clear(Context context) throws Exception {
            context.windowState().getListState(SEEN).clear();
            context.windowState().getMapState(TIMES).clear();
        }
    }

    private static final class Count implements AggregateFunction<Visit, Tuple2<Long, BigDecimal>, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public Tuple2<Long, BigDecimal> createAccumulator() {
            return Tuple2.of(0L, BigDecimal.ZERO);
        }

        @Override
        public Tuple2<Long, BigDecimal> add(Visit visit, Tuple2<Long, BigDecimal> count) {
            return Tuple2.of(count.f0 + 1, count.f1.add(visit.amount));
        }

        @Override
        public String getResult(Tuple2<Long, BigDecimal> count) {
            return count.toString();
        }

        @Override
        public Tuple2<Long, BigDecimal> merge(Tuple2<Long, BigDecimal> one, Tuple2<Long, BigDecimal> other) {
            return Tuple2.of(one.f0 + other.f0, one.f1.add(other.f1));
        }
    }

    /** Both inputs set timers, which tell what had come until then. */
    private static final class Both extends KeyedCoProcessFunction<Long, Visit, Long, String> {
        private static final long serialVersionUID = 1L;
        private static final MapStateDescriptor<String, Long> SEEN =
                new MapStateDescriptor<>("seen", Types.STRING, Types.LONG);
        private static final ValueStateDescriptor<Visit> MOST =
                new ValueStateDescriptor<>("most", TypeInformation.of(Visit.class));

        @Override
        public void processElement1(Visit visit, Context context, Collector<String> out) throws Exception {
            Visit most = getRuntimeContext().getState(MOST).value();
            if (most == null || most.number < visit.number) {
                getRuntimeContext().getState(MOST).update(visit);
            }
            count("visits");
            context.timerService().registerEventTimeTimer(3 * Feed.PAUSE + visit.user);
        }

        @Override
        public void processElement2(Long user, Context context, Collector<String> out) throws Exception {
            count("users");
            context.timerService().registerEventTimeTimer(4 * Feed.PAUSE + user);
            context.timerService().registerProcessingTimeTimer(4_000_000_000_000L + user);
        }

        private void count(String what) throws Exception {
            Long before = getRuntimeContext().getMapState(SEEN).get(what);
            getRuntimeContext().getMapState(SEEN).put(what, before == null ? 1 : before + 1);
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
            out.collect(context.getCurrentKey() + " at " + time + ": "
                    + getRuntimeContext().getState(MOST).value() + " visits "
                    + getRuntimeContext().getMapState(SEEN).get("visits") + " users "
                    + getRuntimeContext().getMapState(SEEN).get("users"));
        }
    }
}
