package harness;

import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.common.typeutils.base.VoidSerializer;
import org.apache.flink.streaming.api.functions.sink.TwoPhaseCommitSinkFunction;

/** A sink with a two-phase commit that discards all records; the package of its base class differs between lines. */
public final class LegacySink<T> extends TwoPhaseCommitSinkFunction<T, String, Void> {
    private static final long serialVersionUID = 1L;

    public LegacySink() {
        super(StringSerializer.INSTANCE, VoidSerializer.INSTANCE);
    }

    @Override
    protected void invoke(String transaction, T value, Context context) {}

    @Override
    protected String beginTransaction() {
        return "transaction";
    }

    @Override
    protected void preCommit(String transaction) {}

    @Override
    protected void commit(String transaction) {}

    @Override
    protected void abort(String transaction) {}
}
