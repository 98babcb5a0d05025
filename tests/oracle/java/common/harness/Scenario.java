package harness;

import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A job whose state can be foretold. It is fed in two phases; a snapshot is taken between them. What a restored job
 * must hold follows from the seed alone (`expected`), what it must emit in its second phase is what an undisturbed
 * run of the same job emits then.
 */
public interface Scenario {
    /** Adds the job's operators; functions find the running job's shared things by `run`. */
    void build(StreamExecutionEnvironment environment, Job job, Run run);

    /** The state at the end of the first phase of `source`, computed without Flink's runtime. */
    Expected expected(Job source);
}
