package harness.everything;

import harness.Events;
import harness.Feed;
import harness.RestoredState;
import harness.Line;
import harness.Listing;
import harness.Run;
import java.util.List;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Every kind of keyed state and timer in one operator, keyed by a user's name. It is an operator and no function
 * because it must list all keys of every state when it is restored.
 */
public final class KeyedStates extends AbstractStreamOperator<String>
        implements OneInputStreamOperator<Tuple3<Long, Integer, Long>, String>, Triggerable<String, Object> {
    private static final long serialVersionUID = 1L;
    public static final String NAME = "states";
    /** Time of processing-time timers, so far in the future that they never fire. */
    public static final long FAR = 4_000_000_000_000L;

    private static final long DAYS = 30_000;

    private final String run;
    private final boolean lazy;

    private transient ValueStateDescriptor<Long> last;
    private transient ListStateDescriptor<String> history;
    private transient MapStateDescriptor<String, String> kinds;
    private transient ReducingStateDescriptor<Long> sum;
    private transient AggregatingStateDescriptor<Long, Tuple2<Long, Long>, String> average;
    private transient ValueStateDescriptor<Long> lastForAWhile;
    private transient ListStateDescriptor<String> historyForAWhile;
    private transient MapStateDescriptor<String, Long> kindsForAWhile;
    private transient ValueStateDescriptor<Long> byParity;
    private transient ValueStateDescriptor<Long> emptyValue;
    private transient ListStateDescriptor<Long> emptyList;
    private transient MapStateDescriptor<Long, String> emptyMap;
    private transient ValueStateDescriptor<Long> lazyValue;
    private transient ListStateDescriptor<String> lazyList;
    private transient InternalTimerService<VoidNamespace> alarms;
    private transient InternalTimerService<String> rounds;

    public KeyedStates(Run run, boolean lazy) {
        this.run = run.id;
        this.lazy = lazy;
    }

    @Override
    @SuppressWarnings({"unchecked", "rawtypes"})
    public void open() throws Exception {
        super.open();
        last = new ValueStateDescriptor<>("last", Types.LONG);
        history = new ListStateDescriptor<>("history", Types.STRING);
        kinds = new MapStateDescriptor<>("kinds", Types.STRING, Types.STRING);
        sum = new ReducingStateDescriptor<>("sum", Long::sum, Types.LONG);
        average = new AggregatingStateDescriptor<>("average", new Average(), Types.TUPLE(Types.LONG, Types.LONG));
        lastForAWhile = new ValueStateDescriptor<>("last-for-a-while", Types.LONG);
        historyForAWhile = new ListStateDescriptor<>("history-for-a-while", Types.STRING);
        kindsForAWhile = new MapStateDescriptor<>("kinds-for-a-while", Types.STRING, Types.LONG);
        for (StateDescriptor<?, ?> mortal : List.of(lastForAWhile, historyForAWhile, kindsForAWhile)) {
            mortal.enableTimeToLive(Line.timeToLive(DAYS));
        }
        byParity = new ValueStateDescriptor<>("by-parity", Types.LONG);
        emptyValue = new ValueStateDescriptor<>("empty-value", Types.LONG);
        emptyList = new ListStateDescriptor<>("empty-list", Types.LONG);
        emptyMap = new MapStateDescriptor<>("empty-map", Types.LONG, Types.STRING);
        lazyValue = new ValueStateDescriptor<>("lazy-value", Types.LONG);
        lazyList = new ListStateDescriptor<>("lazy-list", Types.STRING);
        alarms = getInternalTimerService("alarms", VoidNamespaceSerializer.INSTANCE, (Triggerable) this);
        rounds = getInternalTimerService("rounds", StringSerializer.INSTANCE, (Triggerable) this);
        if (!lazy || Run.of(run).restored) {
            for (StateDescriptor<?, ?> descriptor : descriptors()) {
                backend().getOrCreateKeyedState(namespaceSerializer(descriptor), (StateDescriptor) descriptor);
            }
        }
        if (Run.of(run).restored) {
            report(Run.of(run).found);
        }
    }

    private List<StateDescriptor<?, ?>> descriptors() {
        return List.of(
                last, history, kinds, sum, average, lastForAWhile, historyForAWhile, kindsForAWhile, byParity,
                emptyValue, emptyList, emptyMap, lazyValue, lazyList);
    }

    private TypeSerializer<?> namespaceSerializer(StateDescriptor<?, ?> descriptor) {
        return descriptor == byParity ? StringSerializer.INSTANCE : VoidNamespaceSerializer.INSTANCE;
    }

    private KeyedStateBackend<String> backend() {
        return getKeyedStateBackend();
    }

    private <S extends State> S state(StateDescriptor<S, ?> descriptor) throws Exception {
        return backend().getPartitionedState(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, descriptor);
    }

    @Override
    public void processElement(StreamRecord<Tuple3<Long, Integer, Long>> element) throws Exception {
        long user = element.getValue().f0;
        int number = element.getValue().f1;
        long amount = element.getValue().f2;
        if (user % 4 == 1) {
            state(lazyList).add("lazy-" + number);
        }
        if (user % 4 == 2) {
            state(lazyValue).update(amount);
        }
        state(last).update(amount);
        state(history).add(number + ":" + amount);
        // Null is legal if the value's serializer supports it: Flink's canonical writer for the heap passes it on.
        state(kinds).put(kind(number), amount % 4 == 0 ? null : Long.toString(amount));
        state(sum).add(amount);
        state(average).add(amount);
        if (user % 2 == 0) {
            state(lastForAWhile).update(amount);
            state(historyForAWhile).add(number + ":" + amount);
            state(kindsForAWhile).put(kind(number), amount);
        }
        backend().getPartitionedState(parity(number), StringSerializer.INSTANCE, byParity).update(amount);
        alarms.registerEventTimeTimer(VoidNamespace.INSTANCE, alarm(user, number));
        alarms.registerEventTimeTimer(VoidNamespace.INSTANCE, 10);
        alarms.registerProcessingTimeTimer(VoidNamespace.INSTANCE, FAR + user);
        rounds.registerEventTimeTimer(parity(number), alarm(user, number) + 1);
        long total = state(sum).get();
        int length = 0;
        for (String ignored : state(history).get()) {
            length++;
        }
        emit(Events.name(user) + " #" + number + " sum " + total + " of " + length + " mean " + state(average).get());
    }

    static String kind(int number) {
        return number % 2 == 0 ? "even" : "odd";
    }

    static String parity(int number) {
        return "round-" + kind(number);
    }

    /** Returns the time of an event's timer, which is after the pause. */
    static long alarm(long user, int number) {
        return Feed.PAUSE + 5 + 10 * user + 3L * number;
    }

    private void emit(String text) {
        output.collect(new StreamRecord<>(text));
    }

    @Override
    public void onEventTime(InternalTimer<String, Object> timer) throws Exception {
        if (timer.getTimestamp() > Feed.PAUSE) {
            emit("alarm " + timer.getKey() + " " + timer.getNamespace() + " at " + timer.getTimestamp());
        }
    }

    @Override
    public void onProcessingTime(InternalTimer<String, Object> timer) {
        throw new IllegalStateException("a timer of the far future fired: " + timer);
    }

    private void report(RestoredState found) throws Exception {
        Listing<String> listing = new Listing<>(this, NAME, found);
        listing.values(last.getName(), () -> String.valueOf(state(last).value()));
        listing.values(history.getName(), () -> Listing.text(state(history)));
        listing.values(kinds.getName(), () -> Listing.text(state(kinds)));
        listing.values(sum.getName(), () -> String.valueOf(state(sum).get()));
        listing.values(average.getName(), () -> state(average).get());
        listing.values(lastForAWhile.getName(), () -> String.valueOf(state(lastForAWhile).value()));
        listing.values(historyForAWhile.getName(), () -> Listing.text(state(historyForAWhile)));
        listing.values(kindsForAWhile.getName(), () -> Listing.text(state(kindsForAWhile)));
        listing.values(emptyValue.getName(), () -> String.valueOf(state(emptyValue).value()));
        listing.values(emptyList.getName(), () -> Listing.text(state(emptyList)));
        listing.values(emptyMap.getName(), () -> Listing.text(state(emptyMap)));
        listing.values(lazyValue.getName(), () -> String.valueOf(state(lazyValue).value()));
        listing.values(lazyList.getName(), () -> Listing.text(state(lazyList)));
        listing.<String>namespaced(byParity.getName(), namespace -> () -> String.valueOf(backend()
                .getPartitionedState(namespace, StringSerializer.INSTANCE, byParity)
                .value()));
        listing.timers("alarms", alarms);
        listing.timers("rounds", rounds);
    }
}
