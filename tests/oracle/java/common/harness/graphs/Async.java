package harness.graphs;

import harness.Events;
import harness.Expected;
import harness.Feed;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;

/**
 * Asynchronous calls that are answered only in the second phase, so that all elements of the first phase are in flight
 * when the snapshot is taken. Parameters: `seed`, `keys`.
 */
public final class Async implements Scenario {
    private static final int CAPACITY = 10_000;

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        DataStream<Tuple3<Long, Integer, Long>> events =
                Feed.add(environment, job, run, "events", Events.TYPE, new Events(job));
        Results.collect(
                AsyncDataStream.orderedWait(events, new Call(run, "ordered"), 1, TimeUnit.HOURS, CAPACITY)
                        .uid("ordered")
                        .setParallelism(job.parallelism("ordered")),
                job, run, "ordered");
        Results.collect(
                AsyncDataStream.unorderedWait(events, new Call(run, "unordered"), 1, TimeUnit.HOURS, CAPACITY)
                        .uid("unordered")
                        .setParallelism(job.parallelism("unordered")),
                job, run, "unordered");
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }

    private static final class Call implements AsyncFunction<Tuple3<Long, Integer, Long>, String> {
        private static final long serialVersionUID = 1L;

        private final String run;
        private final String name;

        Call(Run run, String name) {
            this.run = run.id;
            this.name = name;
        }

        @Override
        public void asyncInvoke(Tuple3<Long, Integer, Long> event, ResultFuture<String> result) {
            Run.of(run).inSecondPhase(() -> result.complete(List.of(name + " answer to " + event)));
        }
    }
}
