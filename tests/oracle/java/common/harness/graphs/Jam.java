package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Mix;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A slow operator for which many records wait: an unaligned checkpoint holds them. Which records these are depends on
 * time, so such a checkpoint can be taken, but its state cannot be compared.
 */
public final class Jam implements Scenario {
    private static final int WAITING = 300;
    private static final int MILLIS = 10;

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        long seed = job.parameter("seed", 1);
        Results.collect(
                Feed.add(
                                environment, job, run, "events", Events.TYPE,
                                (phase, subtask, parallelism) -> events(seed, phase, subtask))
                        .keyBy(event -> event.f0, Types.LONG)
                        .map(event -> {
                            Thread.sleep(MILLIS);
                            return event.toString();
                        })
                        .returns(Types.STRING)
                        .uid("slow")
                        .setParallelism(job.parallelism("slow")),
                job, run, "slow");
    }

    private static List<Feed.Timed<Tuple3<Long, Integer, Long>>> events(long seed, int phase, int subtask) {
        List<Feed.Timed<Tuple3<Long, Integer, Long>>> events = new ArrayList<>();
        for (int number = 0; phase == 1 && number < WAITING; number++) {
            events.add(new Feed.Timed<>(Tuple3.of(Mix.of(seed, subtask, number), number, 1L), number));
        }
        return events;
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }
}
