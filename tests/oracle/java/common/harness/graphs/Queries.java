package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * SQL of all sorts, in groups: `joins`, `ranks`, `overs` (with a pattern), `groups`, and `upserts`, which reads and
 * writes them. Windows and intervals include the pause. The state of a query shows in its results. The sum of their
 * changes is compared, because the order in which two inputs are read is undefined. Chaining is off, so that the ids
 * that Flink generates do not depend on the parallelism. Parameters: `seed`, `keys`, the groups as switches, and
 * `wave`: all but the first event of each user of the first phase come in a wave.
 */
public final class Queries implements Scenario {
    private static final String NAME = "'üser-𝄞-' || CAST(f0 AS STRING)";
    /** Columns of many types, null now and then, that follow from the user. */
    private static final String COLUMNS = "f0, f1, f2, " + NAME + " AS name, "
            + "CAST(" + NAME + " AS CHAR(12)) AS fixed, "
            + "ENCODE(" + NAME + ", 'UTF-16') AS binary_name, "
            + "CASE WHEN MOD(f0, 5) = 0 THEN NULL ELSE CAST(f0 AS DECIMAL(10, 2)) / 4 END AS price, "
            + "CASE WHEN MOD(f0, 6) = 0 THEN NULL ELSE CAST(f0 AS DECIMAL(38, 3)) END AS wide, "
            + "TIMESTAMPADD(DAY, CAST(f0 AS INT), TIMESTAMP '1969-07-20 20:17:40.123456789') AS stamp, "
            + "ARRAY[f0, CAST(NULL AS BIGINT), f0 * f0] AS digits, "
            + "ROW(f0, " + NAME + ", ROW(f0)) AS nested, "
            + "MAP['user', f0] AS pairs";

    private static final Map<String, Map<String, String>> GROUPS = Map.of(
            "joins", joins(), "ranks", ranks(), "overs", overs(), "groups", groups());

    private static Map<String, String> joins() {
        Map<String, String> queries = new LinkedHashMap<>();
        queries.put(
                "inner",
                "SELECT a.name, a.f2, b.f2, a.pairs, b.nested FROM lefts a JOIN rights b ON a.name = b.name "
                        + "AND a.price IS NOT DISTINCT FROM b.price AND a.wide IS NOT DISTINCT FROM b.wide "
                        + "AND a.stamp = b.stamp");
        queries.put(
                "full",
                "SELECT * FROM (SELECT f0, SUM(f2) FROM lefts GROUP BY f0) AS a (f0, s) FULL JOIN "
                        + "(SELECT f0, SUM(f2) FROM rights WHERE MOD(f0, 3) <> 0 GROUP BY f0) AS b (f0, s) "
                        + "ON a.f0 = b.f0");
        queries.put(
                "left",
                "SELECT * FROM (SELECT f0, f1, MAX(f2) FROM lefts GROUP BY f0, f1) AS a (f0, f1, m) LEFT JOIN "
                        + "(SELECT f0, f1, MAX(f2) FROM rights WHERE f1 > 0 GROUP BY f0, f1) AS b (f0, f1, m) "
                        + "ON a.f0 = b.f0");
        queries.put(
                "three",
                "SELECT a.name, a.f2, b.f2, c.total FROM lefts a LEFT JOIN rights b ON a.name = b.name JOIN "
                        + "(SELECT name, SUM(f2) AS total FROM rights GROUP BY name) c ON a.name = c.name");
        queries.put("semi", "SELECT name, f2, wide FROM lefts WHERE f0 IN (SELECT f0 FROM rights WHERE f1 > 0)");
        queries.put(
                "anti",
                "SELECT name, f2 FROM lefts a WHERE NOT EXISTS (SELECT * FROM rights b WHERE b.f0 = a.f0 AND b.f1 = 2)");
        queries.put(
                "interval",
                "SELECT a.name, a.f2, b.f2, a.pairs FROM timed_lefts a LEFT JOIN timed_rights b ON a.name = b.name "
                        + "AND a.at_time BETWEEN b.at_time - INTERVAL '5' MINUTE AND b.at_time + INTERVAL '5' MINUTE");
        queries.put(
                "temporal",
                "SELECT a.name, a.f1, a.f2, b.f2 FROM timed_lefts a LEFT JOIN versions FOR SYSTEM_TIME AS OF a.at_time "
                        + "AS b ON a.name = b.name");
        return queries;
    }

    private static String ranked(String source, String partition, String order, int places) {
        return "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY " + partition + " ORDER BY " + order
                + ") AS place FROM " + source + ") WHERE place <= " + places;
    }

    private static Map<String, String> ranks() {
        Map<String, String> queries = new LinkedHashMap<>();
        String timed = "(SELECT f0, f1, f2, name, price, at_time FROM timed_lefts)";
        String arriving = "(SELECT *, PROCTIME() AS now FROM lefts)";
        String select = "SELECT name, price, f2 FROM (";
        queries.put("first", select + ranked(arriving, "name, stamp", "now", 1) + ")");
        queries.put("latest", select + ranked(arriving, "name", "now DESC", 1) + ")");
        queries.put("first-by-time", select + ranked(timed, "name, price", "at_time", 1) + ")");
        queries.put("latest-by-time", select + ranked(timed, "name, price", "at_time DESC", 1) + ")");
        queries.put("best", ranked("(SELECT name, f1, f2, nested FROM lefts)", "name", "f2 DESC, f1", 2));
        queries.put("best-without-place", "SELECT name, f2 FROM (" + ranked("lefts", "name", "f2 DESC, f1", 2) + ")");
        queries.put(
                "most",
                "SELECT name, f1, visits FROM (" + ranked(
                        "(SELECT name, f1, COUNT(*) AS visits FROM lefts GROUP BY name, f1)", "name", "visits DESC", 9)
                        + ")");
        queries.put(
                "most-of-sums",
                "SELECT name, total FROM (" + ranked(
                        "(SELECT name, digits, SUM(f2) AS total FROM lefts GROUP BY name, digits)", "name", "total", 1)
                        + ")");
        return queries;
    }

    private static Map<String, String> overs() {
        Map<String, String> queries = new LinkedHashMap<>();
        String select = "SELECT f0, f1, SUM(f2) OVER w, COUNT(DISTINCT f2) OVER w, MAX(wide) OVER w FROM timed_lefts "
                + "WINDOW w AS (PARTITION BY name ORDER BY at_time ";
        queries.put("rows", select + "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)");
        queries.put("range", select + "RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW)");
        queries.put("unbounded", select + "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)");
        queries.put("unbounded-rows", select + "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)");
        queries.put(
                "lag",
                "SELECT f0, f1, LAG(f2, 2) OVER w, LAG(price) OVER w, FIRST_VALUE(name) OVER w FROM timed_lefts "
                        + "WINDOW w AS (PARTITION BY f0 ORDER BY at_time)");
        queries.put(
                "by-arrival",
                "SELECT f0, f1, SUM(f2) OVER (PARTITION BY f0, price ORDER BY now ROWS BETWEEN 2 PRECEDING AND "
                        + "CURRENT ROW) FROM (SELECT *, PROCTIME() AS now FROM lefts)");
        queries.put(
                "match",
                "SELECT * FROM (SELECT f0, f1, f2, name, price, at_time FROM timed_lefts) MATCH_RECOGNIZE ("
                        + "PARTITION BY name ORDER BY at_time MEASURES FIRST(a.f1) AS since, LAST(b.f2) AS til, "
                        + "a.price AS price ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW "
                        + "PATTERN (a b) DEFINE a AS a.f2 >= 0, b AS b.f1 > a.f1)");
        return queries;
    }

    private static Map<String, String> groups() {
        Map<String, String> queries = new LinkedHashMap<>();
        String sums = "SELECT name, f1, SUM(f2) AS s, MAX(price) AS p FROM lefts GROUP BY name, f1";
        queries.put(
                "retracting",
                "SELECT name, MAX(s), MIN(s), LISTAGG(DISTINCT CAST(f1 * 0 AS STRING)), COUNT(DISTINCT s), "
                        + "STDDEV_POP(s), AVG(p) FROM (" + sums + ") GROUP BY name");
        queries.put(
                "by-fixed",
                "SELECT fixed, price, wide, COUNT(DISTINCT f2), COUNT(DISTINCT name) FILTER (WHERE f1 > 0), MAX(stamp), "
                        + "MIN(fixed) FROM lefts GROUP BY fixed, price, wide");
        queries.put(
                "by-nested",
                "SELECT nested, digits, binary_name, COUNT(*), LAST_VALUE(name) FROM lefts "
                        + "GROUP BY nested, digits, binary_name");
        queries.put("distinct", "SELECT DISTINCT name, stamp, digits FROM lefts");
        queries.put(
                "sets",
                "SELECT f0, price, COUNT(*), SUM(f2) FROM lefts GROUP BY GROUPING SETS ((f0, price), (f0))");
        queries.put("except", "SELECT f0, f1 FROM lefts EXCEPT SELECT f0, f1 + 1 FROM rights");
        queries.put("union", "SELECT name FROM lefts UNION SELECT fixed FROM rights");
        return queries;
    }

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        environment.disableOperatorChaining();
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.getConfig().set("table.local-time-zone", "UTC");
        boolean hasRights = job.has("joins") || job.has("groups");
        for (String side : hasRights ? List.of("lefts", "rights") : List.of("lefts")) {
            Schema timed = Schema.newBuilder()
                    .columnByMetadata("at_time", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
                    .watermark("at_time", "SOURCE_WATERMARK()")
                    .build();
            tables.createTemporaryView(
                    "raw_" + side, Feed.add(environment, job, run, side, Events.TYPE, new InHalves(job)), timed);
            String view = "CREATE TEMPORARY VIEW %s AS SELECT " + COLUMNS + "%s FROM raw_" + side;
            tables.executeSql(String.format(view, "timed_" + side, ", at_time"));
            tables.executeSql(String.format(view, side, ""));
        }
        if (hasRights) {
            tables.executeSql("CREATE TEMPORARY VIEW versions AS SELECT name, f2, at_time FROM ("
                    + ranked("(SELECT name, f2, at_time FROM timed_rights)", "name", "at_time DESC", 1) + ")");
        }
        if (job.has("upserts")) {
            addUpserts(tables, Feed.add(environment, job, run, "upserts", Events.TYPE, new InHalves(job)), job, run);
        }
        GROUPS.forEach((group, queries) -> {
            if (job.has(group)) {
                queries.forEach((name, query) -> add(tables, name, query, job, run));
            }
        });
    }

    /** Reads a stream of upserts, and writes one by another key than that of the query. */
    private static void addUpserts(
            StreamTableEnvironment tables, DataStream<Tuple3<Long, Integer, Long>> events, Job job, Run run) {
        tables.getConfig().set("table.exec.sink.upsert-materialize", "FORCE");
        tables.getConfig().set("table.exec.sink.require-on-conflict", "false");
        tables.createTemporaryView(
                "upserts",
                tables.fromChangelogStream(
                        events.map(event -> Row.ofKind(RowKind.UPDATE_AFTER, event.f0, Events.name(event.f0), event.f2))
                                .returns(Types.ROW_NAMED(
                                        new String[] {"f0", "name", "f2"}, Types.LONG, Types.STRING, Types.LONG))
                                .uid("to-upserts"),
                        Schema.newBuilder()
                                .column("f0", "BIGINT NOT NULL")
                                .column("name", "STRING")
                                .column("f2", "BIGINT")
                                .primaryKey("f0")
                                .build(),
                        ChangelogMode.upsert()));
        add(tables, "normalized", "SELECT name, f2 FROM upserts", job, run);
        String sums = "SELECT COALESCE(f0, 0) AS f0, name, stamp, SUM(f2) AS total FROM lefts GROUP BY f0, name, stamp";
        Results.collect(
                tables.toChangelogStream(
                                tables.sqlQuery(sums),
                                Schema.newBuilder().primaryKey("f0").build(),
                                ChangelogMode.upsert())
                        .map(Object::toString)
                        .returns(Types.STRING)
                        .uid("changes-materialized"),
                job, run, "materialized");
    }

    private static void add(StreamTableEnvironment tables, String name, String query, Job job, Run run) {
        Results.net(
                tables.toChangelogStream(tables.sqlQuery(query))
                        .map(Object::toString)
                        .returns(Types.STRING)
                        .uid("changes-" + name),
                job, run, name);
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    /** Events of which all but the first of a user come after the pause; with `wave`, they come in a wave. */
    private static final class InHalves implements Feed.Records<Tuple3<Long, Integer, Long>> {
        private static final long serialVersionUID = 1L;

        private final Events events;
        private final boolean wave;

        InHalves(Job job) {
            events = new Events(job);
            wave = job.has("wave");
        }

        @Override
        public List<Feed.Timed<Tuple3<Long, Integer, Long>>> of(int phase, int subtask, int parallelism) {
            List<Feed.Timed<Tuple3<Long, Integer, Long>>> half = new ArrayList<>();
            for (Feed.Timed<Tuple3<Long, Integer, Long>> event : events.of(phase == 2 ? 2 : 1, subtask, parallelism)) {
                int number = event.value().f1;
                if (phase == 2) {
                    half.add(event);
                } else if (!wave || (number == 0) == (phase == 1)) {
                    half.add(number == 0 ? event : new Feed.Timed<>(event.value(), Feed.PAUSE + 100 + number));
                }
            }
            return half;
        }
    }
}
