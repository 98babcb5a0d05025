package harness;

import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.common.typeutils.base.VoidSerializer;
import org.apache.flink.streaming.api.functions.sink.legacy.TwoPhaseCommitSinkFunction;

/** A sink that commits in two phases, where this release line keeps its base class; it throws everything away. */
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
