package harness.clicks;

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
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Counts clicks in a shop per user, per half minute and per visit, and sums their worth per page. Parameters: `seed`,
 * `users`; the switch `only_users` keeps only the count per user.
 */
public final class Clicks implements Scenario {
    private static final List<String> NAMES =
            List.of("ada", "bob", "cem", "dina", "emil", "fatma", "gus", "hana", "ivo", "june");
    static final List<String> PAGES = List.of("/", "/search", "/shoes", "/hats", "/cart");
    static final TypeInformation<Tuple3<String, String, Integer>> CLICK =
            Types.TUPLE(Types.STRING, Types.STRING, Types.INT);

    static String user(long number) {
        String name = NAMES.get((int) (number % NAMES.size()));
        return number < NAMES.size() ? name : name + "-" + number / NAMES.size();
    }

    /** Returns the clicks of a phase: (user, page, the click's number). A visit goes on over the pause. */
    static List<Feed.Timed<Tuple3<String, String, Integer>>> clicks(Job job, int phase, int subtask, int parallelism) {
        long seed = job.parameter("seed", 1);
        List<Feed.Timed<Tuple3<String, String, Integer>>> clicks = new ArrayList<>();
        for (long user = subtask; user < job.parameter("users", 10); user += parallelism) {
            int before = 1 + Mix.below(5, seed, user);
            int from = phase == 1 ? 0 : before;
            int to = phase == 1 ? before : before + 2;
            for (int number = from; number < to; number++) {
                String page = PAGES.get(Mix.below(PAGES.size(), seed, user, number));
                long time = phase == 1 ? 92_000 + 1_500L * number : Feed.PAUSE + 2_000L * (number - from);
                clicks.add(new Feed.Timed<>(Tuple3.of(user(user), page, number), time));
            }
        }
        return clicks;
    }

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        DataStream<Tuple3<String, String, Integer>> clicks = Feed.add(
                        environment, job, run, "clicks", CLICK,
                        (phase, subtask, parallelism) -> clicks(job, phase, subtask, parallelism))
                .map(new Shards(run, job.parameter("seed", 1)))
                .returns(CLICK)
                .name(Shards.NAME)
                .uid(Shards.NAME)
                .setParallelism(job.parallelism(Shards.NAME));
        KeyedStream<Tuple3<String, String, Integer>, String> byUser = clicks.keyBy(click -> click.f0, Types.STRING);
        Results.collect(
                byUser.transform(
                                PerUser.NAME, Types.STRING,
                                new ReportingOperator<>(run, PerUser.NAME, new PerUser(), PerUser.STATES))
                        .uid(PerUser.NAME)
                        .setParallelism(job.parallelism(PerUser.NAME)),
                job, run, PerUser.NAME);
        if (job.has("only_users")) {
            return;
        }
        Results.collect(
                byUser.window(Line.tumbling(30_000))
                        .aggregate(new Count("clicks in half a minute"))
                        .uid("per-half-minute")
                        .setParallelism(job.parallelism("per-half-minute")),
                job, run, "per-half-minute");
        Results.collect(
                byUser.window(Line.session(10_000))
                        .aggregate(new Count("clicks in a visit"))
                        .uid("visits")
                        .setParallelism(job.parallelism("visits")),
                job, run, "visits");
        Results.collect(
                clicks.keyBy(click -> click.f1, Types.STRING)
                        .connect(Feed.add(
                                        environment, job, run, "prices", Types.TUPLE(Types.STRING, Types.LONG),
                                        (phase, subtask, parallelism) -> Revenue.prices(phase, subtask))
                                .broadcast(Revenue.PRICES))
                        .process(new Revenue(run), Types.STRING)
                        .uid(Revenue.NAME)
                        .setParallelism(job.parallelism(Revenue.NAME)),
                job, run, Revenue.NAME);
    }

    @Override
    public Expected expected(Job source) {
        Expected expected = new Expected();
        Map<String, List<String>> pages = new TreeMap<>();
        for (Feed.Timed<Tuple3<String, String, Integer>> click : clicks(source, 1, 0, 1)) {
            pages.computeIfAbsent(click.value().f0, user -> new ArrayList<>()).add(click.value().f1);
        }
        pages.forEach((user, visited) -> PerUser.expect(expected, user, visited));
        int parallelism = source.parallelism(Shards.NAME);
        List<List<String>> shards = new ArrayList<>();
        List<String> owners = new ArrayList<>();
        for (int subtask = 0; subtask < parallelism; subtask++) {
            shards.add(Shards.shards(source.parameter("seed", 1), subtask));
            owners.addAll(Shards.owners(subtask));
        }
        expected.split(Shards.NAME, Shards.NAME + "/shards", shards);
        expected.union.put(Shards.NAME + "/owners", owners);
        if (source.has("only_users")) {
            return expected;
        }
        List<String> prices = new ArrayList<>();
        Revenue.prices(1, 0).forEach(price -> prices.add(price.value().f0 + "=" + price.value().f1));
        expected.broadcast.put(Revenue.NAME + "/prices", prices);
        return expected;
    }

    /** Counts the clicks of a window; emits the user and the number. */
    private static final class Count
            implements AggregateFunction<Tuple3<String, String, Integer>, Tuple3<String, String, Integer>, String> {
        private static final long serialVersionUID = 1L;

        private final String what;

        Count(String what) {
            this.what = what;
        }

        @Override
        public Tuple3<String, String, Integer> createAccumulator() {
            return Tuple3.of("", what, 0);
        }

        @Override
        public Tuple3<String, String, Integer> add(
                Tuple3<String, String, Integer> click, Tuple3<String, String, Integer> count) {
            return Tuple3.of(click.f0, what, count.f2 + 1);
        }

        @Override
        public String getResult(Tuple3<String, String, Integer> count) {
            return count.f0 + ": " + count.f2 + " " + count.f1;
        }

        @Override
        public Tuple3<String, String, Integer> merge(
                Tuple3<String, String, Integer> left, Tuple3<String, String, Integer> right) {
            return Tuple3.of(left.f0.isEmpty() ? right.f0 : left.f0, what, left.f2 + right.f2);
        }
    }
}
