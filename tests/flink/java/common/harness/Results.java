package harness;

import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Where a job's results go: into the run. Never chained, so that it does not change the ids of what stands before it. */
public final class Results extends AbstractStreamOperator<Void> implements OneInputStreamOperator<String, Void> {
    private static final long serialVersionUID = 1L;

    private final String run;

    private Results(Run run) {
        this.run = run.id;
    }

    /** Collects what the operator `of` emits. */
    public static void collect(DataStream<String> stream, Job job, Run run, String of) {
        stream.transform("results of " + of, Types.VOID, new Results(run))
                .uid("results-of-" + of)
                .setParallelism(job.parallelism("results-of-" + of))
                .disableChaining();
    }

    @Override
    public void processElement(StreamRecord<String> element) {
        Run.of(run).result(element.getValue());
    }
}
