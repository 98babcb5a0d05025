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
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * A SQL aggregate over everything, which never runs in parallel, and one by user. Chaining is off, so that the ids
 * that Flink generates do not depend on the parallelism. Parameters: `seed`, `keys`.
 */
public final class Sql implements Scenario {
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
        Results.collect(
                changes(tables, "by-user", "SELECT f0, COUNT(*), SUM(f2), COUNT(DISTINCT f1) FROM events GROUP BY f0")
                        .setParallelism(job.parallelism("by-user")),
                job, run, "by-user");
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
