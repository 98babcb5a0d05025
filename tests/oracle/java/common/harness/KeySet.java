package harness;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.flink.api.common.typeinfo.TypeInformation;

/** Distinct keys of a type of `Keys`: rare values first, then random ones by a seed. */
public final class KeySet<K> implements Serializable {
    private static final long serialVersionUID = 1L;
    /** Attempts per key to find a new one: some types, such as booleans, have few values. */
    private static final int TRIES = 20;

    private static final Map<String, List<?>> RARE = Map.of(
            "String", List.of("", "\ud83d", "\udc00\ud83d", "\0", "\uffff", "𝄞", "x".repeat(1 << 16)),
            "Float", List.of(Float.NaN, -0.0f, 0.0f, Float.NEGATIVE_INFINITY, Float.MIN_VALUE),
            "Double", List.of(Double.NaN, -0.0, 0.0, Double.POSITIVE_INFINITY, Double.MIN_VALUE));

    private final String type;
    private final long seed;
    private final int number;
    private transient List<K> keys;
    private transient Map<K, Integer> numbers;

    /** Draws about `number` keys of `type`, fewer if the type has fewer values. */
    public KeySet(String type, long seed, int number) {
        this.type = type;
        this.seed = seed;
        this.number = number;
    }

    @SuppressWarnings("unchecked")
    private Keys.Kind<K> kind() {
        return (Keys.Kind<K>) Keys.kind(type);
    }

    @SuppressWarnings("unchecked")
    private List<K> keys() {
        if (keys == null) {
            numbers = new LinkedHashMap<>();
            RARE.getOrDefault(type, List.of()).forEach(key -> numbers.putIfAbsent((K) key, numbers.size()));
            Random random = new Random(seed);
            Keys.Kind<K> kind = kind();
            for (int tries = TRIES * number; numbers.size() < number && tries > 0; tries--) {
                numbers.putIfAbsent(kind.key().apply(random), numbers.size());
            }
            keys = new ArrayList<>(numbers.keySet());
        }
        return keys;
    }

    /** Returns the key of `user`; several users may share a key. */
    public K key(long user) {
        return keys().get(Math.floorMod(user, keys().size()));
    }

    /** Returns a key's name in reports; the text of a key is not always unique. */
    public String name(K key) {
        keys();
        Integer place = numbers.get(key);
        return place == null ? "unknown " + key : type + " #" + place;
    }

    public TypeInformation<K> information() {
        return new SerializerInformation<>(type, kind().serializer());
    }
}
