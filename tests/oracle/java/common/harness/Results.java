package harness;

import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Sink that adds a job's results to the run. It is never chained: a chain could change ids that Flink generates. */
public final class Results extends AbstractStreamOperator<Void> implements OneInputStreamOperator<String, Void> {
    private static final long serialVersionUID = 1L;

    private final String run;

    /** Name of the stream of which only the last result is kept; empty if all results are kept. */
    private final String lastOf;

    private Results(Run run, String lastOf) {
        this.run = run.id;
        this.lastOf = lastOf;
    }

    /** Collects the results of the operator `of`. */
    public static void collect(DataStream<String> stream, Job job, Run run, String of) {
        stream.transform("results of " + of, Types.VOID, new Results(run, ""))
                .uid("results-of-" + of)
                .setParallelism(job.parallelism("results-of-" + of))
                .disableChaining();
    }

    /** Keeps the last result of the operator `of`, which must not run in parallel. */
    public static void last(DataStream<String> stream, Run run, String of) {
        stream.transform("last result of " + of, Types.VOID, new Results(run, of))
                .uid("results-of-" + of)
                .setParallelism(1)
                .disableChaining();
    }

    @Override
    public void processElement(StreamRecord<String> element) {
        if (lastOf.isEmpty()) {
            Run.of(run).result(element.getValue());
        } else {
            Run.of(run).last(lastOf, element.getValue());
        }
    }
}
