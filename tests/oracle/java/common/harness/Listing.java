package harness;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.CheckpointableKeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.util.function.BiConsumerWithException;

/** Reports every key of a restored operator's keyed states and timers, so that surplus keys are noticed. */
public final class Listing<K> {
    /** Reads the current key's value as text. */
    public interface Shown {
        String text() throws Exception;
    }

    private interface Timers<N> {
        void forEach(BiConsumerWithException<N, Long, Exception> each) throws Exception;
    }

    private final AbstractStreamOperator<?> operator;
    private final String name;
    private final RestoredState found;
    private final Function<K, String> named;
    private final CheckpointableKeyedStateBackend<K> backend;

    public Listing(AbstractStreamOperator<?> operator, String name, RestoredState found) {
        this(operator, name, found, Object::toString);
    }

    /** Reports keys by their names in `named`. */
    public Listing(AbstractStreamOperator<?> operator, String name, RestoredState found, Function<K, String> named) {
        this.operator = operator;
        this.name = name;
        this.found = found;
        this.named = named;
        this.backend = (CheckpointableKeyedStateBackend<K>) operator.<K>getKeyedStateBackend();
    }

    /** Reports all keys of a state without namespaces. */
    public void values(String state, Shown value) throws Exception {
        List<K> keys;
        try (Stream<K> stream = backend.getKeys(state, VoidNamespace.INSTANCE)) {
            keys = stream.collect(Collectors.toList());
        }
        for (K key : keys) {
            operator.setCurrentKey(key);
            report(state, key, named.apply(key), value.text());
        }
    }

    /** Reports all pairs of key and namespace of a state. */
    public <N> void namespaced(String state, Function<N, Shown> value) throws Exception {
        List<Tuple2<K, N>> pairs;
        try (Stream<Tuple2<K, N>> stream = backend.getKeysAndNamespaces(state)) {
            pairs = stream.collect(Collectors.toList());
        }
        for (Tuple2<K, N> pair : pairs) {
            operator.setCurrentKey(pair.f0);
            report(state, pair.f0, named.apply(pair.f0) + "|" + pair.f1, value.apply(pair.f1).text());
        }
    }

    /** Reports all timers of a service, as "service/event" and "service/processing". */
    public <N> void timers(String service, InternalTimerService<N> timers) throws Exception {
        this.<N>queue(service + "/event", timers::forEachEventTimeTimer);
        this.<N>queue(service + "/processing", timers::forEachProcessingTimeTimer);
    }

    @SuppressWarnings("unchecked")
    private <N> void queue(String queue, Timers<N> timers) throws Exception {
        Map<K, List<String>> byKey = new HashMap<>();
        timers.forEach((namespace, time) -> byKey.computeIfAbsent(
                        (K) operator.getCurrentKey(), key -> new ArrayList<>())
                .add(namespace + "@" + time));
        byKey.forEach((key, list) ->
                report(queue, key, named.apply(key), list.stream().sorted().collect(Collectors.toList()).toString()));
    }

    private void report(String state, K key, String shown, String value) {
        int maxParallelism = Line.maxParallelism(operator.getRuntimeContext());
        found.key(name + "/" + state, key, shown, value, backend.getKeyGroupRange(), maxParallelism);
    }

    public static <T> String text(ListState<T> list) throws Exception {
        List<String> elements = new ArrayList<>();
        for (T element : list.get()) {
            elements.add(String.valueOf(element));
        }
        return elements.toString();
    }

    public static <F, V> String text(MapState<F, V> map) throws Exception {
        Map<String, String> entries = new TreeMap<>();
        for (Map.Entry<F, V> entry : map.entries()) {
            entries.put(String.valueOf(entry.getKey()), String.valueOf(entry.getValue()));
        }
        return entries.toString();
    }
}
