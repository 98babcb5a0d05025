package harness;

import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A job whose state can be computed in advance. Its input comes in two phases; a snapshot is taken between them. The
 * state of a restored job follows from the seed alone (`expected`), and the results of its second phase must be those
 * of an undisturbed run of the same job.
 */
public interface Scenario {
    /** Adds the job's operators; functions find the shared state of the running job by `run`. */
    void build(StreamExecutionEnvironment environment, Job job, Run run);

    /** Returns the state at the end of the first phase of `source`, computed without Flink's runtime. */
    Expected expected(Job source);
}
