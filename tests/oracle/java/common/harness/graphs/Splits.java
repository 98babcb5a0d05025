package harness.graphs;

import harness.Expected;
import harness.Job;
import harness.Results;
import harness.Run;
import harness.Scenario;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A source whose readers hold splits, and whose coordinator retains some. Half of a split's numbers belong to
 * the first phase. Parameters: `splits`; with the switch `idle`, a reader and the operator behind it finish.
 */
public final class Splits implements Scenario {
    private static final String NAME = "numbers";

    @Override
    public void build(StreamExecutionEnvironment environment, Job job, Run run) {
        run.expectFeeds(SplitSource.assignedAtFirst(job));
        if (job.has("idle")) {
            run.expectFinished(2);
        }
        Results.collect(
                environment
                        .fromSource(new SplitSource(run, job), WatermarkStrategy.noWatermarks(), NAME, Types.STRING)
                        .uid(NAME)
                        .setParallelism(job.parallelism(NAME)),
                job, run, NAME);
    }

    @Override
    public Expected expected(Job source) {
        return new Expected();
    }
}
