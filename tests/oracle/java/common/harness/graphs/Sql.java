package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * A SQL aggregate over everything, which never runs in parallel, and one by user. Chaining is off, so that the ids
 * that Flink generates do not depend on the parallelism. Parameters: `seed`, `keys`. The switch `many_fields` adds
 * aggregates by a text, by columns of many types (null now and then) and by visits that go on over the pause, and a
 * ranking of sums that change.
 */
public final class Sql implements Scenario {
    private static final String NAME = "'üser-𝄞-' || CAST(f0 AS STRING)";
    /** Columns that together differ between any two users, because the order of users is undefined. */
    private static final String MANY_FIELDS =
            "f0 * 10000000000 AS big, "
                    + "CASE WHEN MOD(f0, 3) = 0 THEN NULL ELSE CAST(f0 AS INT) END AS number, "
                    + "CASE WHEN MOD(f0, 4) = 0 THEN NULL ELSE " + NAME + " END AS name, "
                    + "CASE WHEN MOD(f0, 5) = 0 THEN NULL ELSE CAST(f0 AS DECIMAL(10, 2)) / 4 END AS price, "
                    + "CASE WHEN MOD(f0, 6) = 0 THEN NULL ELSE CAST(f0 AS DECIMAL(38, 3)) END AS wide, "
                    + "TIMESTAMPADD(DAY, CAST(f0 AS INT), TIMESTAMP '1969-07-20 20:17:40.123456789') AS at_time, "
                    + "MOD(f0, 2) = 0 AS even, CAST(f0 AS DOUBLE) / 3 AS third, f2";

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        environment.disableOperatorChaining();
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        DataStream<Tuple3<Long, Integer, Long>> events =
                Feed.add(environment, job, run, "events", Events.TYPE, new Events(job));
        tables.createTemporaryView("events", events);
        // Its intermediate sums depend on which feed is read first.
        Results.last(
                changes(tables, "total", "SELECT COUNT(*), SUM(f2), MAX(f2) FROM events").setParallelism(1),
                run, "total");
        add(
                tables, "by-user", "SELECT f0, COUNT(*), SUM(f2), COUNT(DISTINCT f1) FROM events GROUP BY f0",
                job, run);
        if (job.has("many_fields")) {
            add(tables, "by-name", "SELECT " + NAME + ", COUNT(*), SUM(f2) FROM events GROUP BY " + NAME, job, run);
            String columns = "big, number, name, price, wide, at_time, even, third";
            add(
                    tables,
                    "by-all",
                    "SELECT " + columns + ", COUNT(*), SUM(f2) FROM (SELECT " + MANY_FIELDS + " FROM events) GROUP BY "
                            + columns,
                    job,
                    run);
            String sums = "SELECT f0, " + NAME + " AS name, SUM(f2) AS amount FROM events GROUP BY f0";
            add(
                    tables,
                    "best",
                    "SELECT name, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY amount DESC) AS "
                            + "place FROM (" + sums + ")) WHERE place <= 2",
                    job,
                    run);
            Schema timed = Schema.newBuilder()
                    .columnByMetadata("at_time", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
                    .watermark("at_time", "SOURCE_WATERMARK()")
                    .build();
            tables.createTemporaryView("timed_events", events, timed);
            add(
                    tables,
                    "by-visit",
                    "SELECT f0, SESSION_START(at_time, INTERVAL '4' MINUTE), COUNT(*), SUM(f2) FROM timed_events "
                            + "GROUP BY f0, SESSION(at_time, INTERVAL '4' MINUTE)",
                    job,
                    run);
        }
    }

    private static void add(StreamTableEnvironment tables, String name, String query, Job job, Run run) {
        Results.collect(changes(tables, name, query).setParallelism(job.parallelism(name)), job, run, name);
    }

    private static SingleOutputStreamOperator<String> changes(
            StreamTableEnvironment tables, String name, String query) {
        return tables.toChangelogStream(tables.sqlQuery(query))
                .map(Object::toString)
                .returns(Types.STRING)
                .uid("changes-" + name);
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }
}
