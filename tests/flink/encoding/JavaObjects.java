import java.io.ByteArrayOutputStream;
import java.io.Externalizable;
import java.io.IOException;
import java.io.ObjectInput;
import java.io.ObjectOutput;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Prints "name base64" of an object stream for every form that the format has. */
public class JavaObjects {

    static class Above implements Serializable {
        private static final long serialVersionUID = 5;
        int inherited = 7;
        String label = "above";

        private void writeObject(java.io.ObjectOutputStream out) throws IOException {
            out.defaultWriteObject();
            out.writeInt(99);
            out.writeObject("written by hand");
            out.write(new byte[2000]);
        }
    }

    static class Fields extends Above {
        private static final long serialVersionUID = -6;
        byte b = 1;
        char c = 'c';
        double d = 2;
        float f = 3;
        int i = 4;
        long j = 5;
        short s = 6;
        boolean z = true;
        int[] ints = {1, 2, 3};
        String[][] texts = {{"a", null}, {}};
        TimeUnit unit = TimeUnit.DAYS;
        Class<?> type = Above.class;
        Object self = this;
        Object nothing = null;
        String own = "fields";
    }

    public static class External implements Externalizable {
        private static final long serialVersionUID = 1;

        @Override
        public void writeExternal(ObjectOutput out) throws IOException {
            out.writeLong(1);
            out.writeObject("inside");
        }

        @Override
        public void readExternal(ObjectInput in) {}
    }

    static class Handler implements InvocationHandler, Serializable {
        private static final long serialVersionUID = 1;

        @Override
        public Object invoke(Object proxy, Method method, Object[] arguments) {
            return null;
        }
    }

    static Object nested(int levels) {
        Object value = "innermost";
        for (int level = 0; level < levels; level++) {
            value = new Object[] {value};
        }
        return value;
    }

    static void print(String name, Object value) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(value);
        }
        System.out.println(name + " " + Base64.getEncoder().encodeToString(bytes.toByteArray()));
    }

    public static void main(String[] arguments) throws IOException {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("list", new ArrayList<>(Arrays.asList(1, "two", 3.0, null)));
        map.put("same", map.get("list"));
        map.put("decimal", new BigDecimal("12.34"));
        Map<TimeUnit, String> enums = new EnumMap<>(TimeUnit.class);
        enums.put(TimeUnit.HOURS, "h");
        print("null", null);
        print("string", "text \u0000 \u20ac \ud83d\ude00");
        print("long-string", "x".repeat(70_000));
        print("map", map);
        print("enum", TimeUnit.NANOSECONDS);
        print("enum-map", enums);
        print("fields", new Fields());
        print("external", new External());
        print("class", Fields.class);
        print("primitive-class", int.class);
        print("immutable-list", List.of("a", "b", "c"));
        print("doubles", new double[] {1, 2});
        print("proxy", Proxy.newProxyInstance(
                JavaObjects.class.getClassLoader(), new Class<?>[] {Runnable.class}, new Handler()));
        print("lambda", (Runnable & Serializable) () -> {});
        print("nested-80", nested(80));
        print("nested-200", nested(200));
    }
}
