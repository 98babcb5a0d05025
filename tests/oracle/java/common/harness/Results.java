package harness;

import java.io.Serializable;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Sink that adds a job's results to the run. It is never chained: a chain could change ids that Flink generates. */
public final class Results extends AbstractStreamOperator<Void> implements OneInputStreamOperator<String, Void> {
    private static final long serialVersionUID = 1L;

    private interface Keep extends Serializable {
        void result(Run run, String text);
    }

    private final String run;
    private final Keep keep;

    private Results(Run run, Keep keep) {
        this.run = run.id;
        this.keep = keep;
    }

    /** Collects the results of the operator `of`. */
    public static void collect(DataStream<String> stream, Job job, Run run, String of) {
        add(stream, "results of " + of, of, job.parallelism("results-of-" + of), new Results(run, Run::result));
    }

    /** Collects the changes of the operator `of`, such as `+I[...]`, and keeps what they add and remove in sum. */
    public static void net(DataStream<String> stream, Job job, Run run, String of) {
        Keep keep = (Run results, String text) -> results.change(of + text.substring(2), text.charAt(0) == '+' ? 1 : -1);
        add(stream, "changes of " + of, of, job.parallelism("results-of-" + of), new Results(run, keep));
    }

    /** Keeps the last result of the operator `of`, which must not run in parallel. */
    public static void last(DataStream<String> stream, Run run, String of) {
        add(stream, "last result of " + of, of, 1, new Results(run, (results, text) -> results.last(of, text)));
    }

    private static void add(DataStream<String> stream, String name, String of, int parallelism, Results results) {
        stream.transform(name, Types.VOID, results)
                .uid("results-of-" + of)
                .setParallelism(parallelism)
                .disableChaining();
    }

    @Override
    public void processElement(StreamRecord<String> element) {
        keep.result(Run.of(run), element.getValue());
    }
}
