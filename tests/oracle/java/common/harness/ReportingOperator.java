package harness;

import java.util.List;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;

/** Runs an ordinary keyed function, and lists all its keys when it is restored. */
public class ReportingOperator<K, IN> extends KeyedProcessOperator<K, IN, String> {
    private static final long serialVersionUID = 1L;
    /** Flink's name for the timers of a keyed function. */
    public static final String TIMERS = "user-timers";

    private final String run;
    private final String name;
    private final List<StateDescriptor<?, ?>> descriptors;

    public ReportingOperator(
            Run run,
            String name,
            KeyedProcessFunction<K, IN, String> function,
            List<StateDescriptor<?, ?>> descriptors) {
        super(function);
        this.run = run.id;
        this.name = name;
        this.descriptors = descriptors;
    }

    @Override
    public void open() throws Exception {
        super.open();
        if (!Run.of(run).restored) {
            return;
        }
        Listing<K> listing = new Listing<>(this, name, Run.of(run).found);
        for (StateDescriptor<?, ?> descriptor : descriptors) {
            report(listing, descriptor);
        }
        listing.timers(TIMERS, getInternalTimerService(TIMERS, VoidNamespaceSerializer.INSTANCE, this));
    }

    private void report(Listing<K> listing, StateDescriptor<?, ?> descriptor) throws Exception {
        String state = descriptor.getName();
        state(descriptor);
        if (descriptor instanceof ValueStateDescriptor<?> value) {
            listing.values(state, () -> String.valueOf(state(value).value()));
        } else if (descriptor instanceof ListStateDescriptor<?> list) {
            listing.values(state, () -> Listing.text(state(list)));
        } else if (descriptor instanceof MapStateDescriptor<?, ?> map) {
            listing.values(state, () -> Listing.text(state(map)));
        } else {
            throw new IllegalArgumentException("cannot list " + descriptor);
        }
    }

    private <S extends State> S state(StateDescriptor<S, ?> descriptor) throws Exception {
        return this.<K>getKeyedStateBackend()
                .getPartitionedState(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, descriptor);
    }
}
