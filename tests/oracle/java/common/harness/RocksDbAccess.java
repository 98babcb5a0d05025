package harness;

import java.lang.reflect.Field;
import java.util.Map;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDB;

/** The database of a `RocksDBKeyedStateBackend`, a class that Flink 2 has moved to another package. */
public final class RocksDbAccess {
    private RocksDbAccess() {}

    /** Compacts all files of these states, and waits for the end. */
    public static void compact(Object backend, String... states) throws Exception {
        RocksDB database = (RocksDB) field(backend, "db");
        Map<?, ?> registered = (Map<?, ?>) field(backend, "kvStateInformation");
        for (String state : states) {
            database.compactRange((ColumnFamilyHandle) field(registered.get(state), "columnFamilyHandle"));
        }
    }

    private static Object field(Object owner, String name) throws ReflectiveOperationException {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }
}
