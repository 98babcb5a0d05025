package harness.everything;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.BroadcastStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * All kinds of keyed and operator state. Parameters: `seed`; `keys`, users in the first phase; the switches `lazy`
 * (keyed states are registered when they are first needed, so only by some subtasks), `raw_keyed`, `raw_operator`.
 */
public final class Everything implements Scenario {
    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        long seed = job.parameter("seed", 1);
        DataStream<Tuple3<Long, Integer, Long>> events =
                Feed.add(environment, job, run, "events", Events.TYPE, new Events(job));
        DataStream<String> states = events.keyBy(event -> Events.name(event.f0), Types.STRING)
                .transform(KeyedStates.NAME, Types.STRING, new KeyedStates(run, job.has("lazy")))
                .uid(KeyedStates.NAME)
                .setParallelism(job.parallelism(KeyedStates.NAME));
        DataStream<String> lists = states.transform(
                        OperatorLists.NAME, Types.STRING, new OperatorLists(run, seed))
                .uid(OperatorLists.NAME)
                .setParallelism(job.parallelism(OperatorLists.NAME));
        Results.collect(lists, job, run, "lists");
        BroadcastStream<String> rules = Feed.add(
                        environment, job, run, "rule-feed", Types.STRING,
                        (phase, subtask, parallelism) -> Rules.rules(phase, subtask))
                .broadcast(Rules.BY_NAME);
        Results.collect(
                events.keyBy(event -> event.f0, Types.LONG)
                        .connect(rules)
                        .process(new Rules(run), Types.STRING)
                        .uid(Rules.NAME)
                        .setParallelism(job.parallelism(Rules.NAME)),
                job, run, "rules");
        Results.collect(
                events.keyBy(Residues::residue, Types.INT)
                        .process(new Residues(), Types.STRING)
                        .setParallelism(job.parallelism("residues"))
                        .disableChaining(),
                job, run, "residues");
        if (job.has("raw_keyed") || job.has("raw_operator")) {
            RawStates raw = new RawStates(run, seed, job.has("raw_keyed"), job.has("raw_operator"));
            Results.collect(
                    events.keyBy(event -> event.f0, Types.LONG)
                            .transform(RawStates.NAME, Types.STRING, raw)
                            .uid(RawStates.NAME)
                            .setParallelism(job.parallelism(RawStates.NAME)),
                    job, run, "raw");
        }
    }

    @Override
    public Expected expected(Job source) {
        return new Model(source).expected();
    }
}
