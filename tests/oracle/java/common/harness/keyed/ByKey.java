package harness.keyed;

import harness.Feed;
import harness.KeySet;
import harness.Listing;
import harness.Run;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * A value, a list, a map and timers per key, and a map and timers per key and round. A round is a text, so that Flink
 * writes the lengths of key and round unless the key has a fixed length. Lists all keys when it is restored.
 */
final class ByKey<K> extends AbstractStreamOperator<String>
        implements OneInputStreamOperator<Tuple3<Long, Integer, Long>, String>, Triggerable<K, Object> {
    private static final long serialVersionUID = 1L;
    /** Time of processing-time timers, so far in the future that they never fire. */
    static final long FAR = 4_000_000_000_000L;

    private static final ValueStateDescriptor<Long> SUM = new ValueStateDescriptor<>("sum", Types.LONG);
    private static final ListStateDescriptor<String> HISTORY = new ListStateDescriptor<>("history", Types.STRING);
    private static final MapStateDescriptor<String, Long> AMOUNTS =
            new MapStateDescriptor<>("amounts", Types.STRING, Types.LONG);
    private static final MapStateDescriptor<String, Long> ROUNDS =
            new MapStateDescriptor<>("rounds", Types.STRING, Types.LONG);

    private final String run;
    private final String name;
    private final KeySet<K> keys;

    private transient InternalTimerService<VoidNamespace> alarms;
    private transient InternalTimerService<String> ends;

    ByKey(Run run, String name, KeySet<K> keys) {
        this.run = run.id;
        this.name = name;
        this.keys = keys;
    }

    static String entry(Tuple3<Long, Integer, Long> event) {
        return event.f0 + "-" + event.f1;
    }

    static String round(Tuple3<Long, Integer, Long> event) {
        return "r".repeat(event.f1 % 2) + "-𝄞";
    }

    /** Returns the time of an event's timer, which is after the pause. */
    static long alarm(Tuple3<Long, Integer, Long> event) {
        return Feed.PAUSE + 5 + 10 * event.f0 + 3L * event.f1;
    }

    @Override
    @SuppressWarnings({"unchecked", "rawtypes"})
    public void open() throws Exception {
        super.open();
        alarms = getInternalTimerService("alarms", VoidNamespaceSerializer.INSTANCE, (Triggerable) this);
        ends = getInternalTimerService("ends", StringSerializer.INSTANCE, (Triggerable) this);
        if (Run.of(run).restored) {
            report();
        }
    }

    private <S extends State> S state(StateDescriptor<S, ?> descriptor) throws Exception {
        return this.<K>getKeyedStateBackend()
                .getPartitionedState(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, descriptor);
    }

    private MapState<String, Long> round(String round) throws Exception {
        return this.<K>getKeyedStateBackend().getPartitionedState(round, StringSerializer.INSTANCE, ROUNDS);
    }

    @Override
    public void processElement(StreamRecord<Tuple3<Long, Integer, Long>> element) throws Exception {
        Tuple3<Long, Integer, Long> event = element.getValue();
        long amount = event.f2;
        long sum = (state(SUM).value() == null ? 0 : state(SUM).value()) + amount;
        state(SUM).update(sum);
        state(HISTORY).add(entry(event));
        state(AMOUNTS).put(entry(event), amount);
        round(round(event)).put(entry(event), amount);
        alarms.registerEventTimeTimer(VoidNamespace.INSTANCE, alarm(event));
        alarms.registerProcessingTimeTimer(VoidNamespace.INSTANCE, FAR + event.f0);
        ends.registerEventTimeTimer(round(event), alarm(event) + 1);
        tell(keys.key(event.f0), "has " + sum + " with " + Listing.text(round(round(event))) + " in " + round(event));
    }

    private void tell(K key, String what) {
        output.collect(new StreamRecord<>(keys.name(key) + " " + what));
    }

    @Override
    public void onEventTime(InternalTimer<K, Object> timer) throws Exception {
        String what = " at " + timer.getTimestamp();
        if (timer.getNamespace() instanceof String round) {
            tell(timer.getKey(), round + " ends with " + Listing.text(round(round)) + what);
        } else {
            tell(timer.getKey(), Listing.text(state(HISTORY)) + " of " + Listing.text(state(AMOUNTS)) + what);
        }
    }

    @Override
    public void onProcessingTime(InternalTimer<K, Object> timer) {
        throw new IllegalStateException("a timer of the far future fired: " + timer);
    }

    private void report() throws Exception {
        Listing<K> listing = new Listing<>(this, name, Run.of(run).found, keys::name);
        state(SUM);
        listing.values(SUM.getName(), () -> String.valueOf(state(SUM).value()));
        state(HISTORY);
        listing.values(HISTORY.getName(), () -> Listing.text(state(HISTORY)));
        state(AMOUNTS);
        listing.values(AMOUNTS.getName(), () -> Listing.text(state(AMOUNTS)));
        round("");
        listing.<String>namespaced(ROUNDS.getName(), round -> () -> Listing.text(round(round)));
        listing.timers("alarms", alarms);
        listing.timers("ends", ends);
    }
}
