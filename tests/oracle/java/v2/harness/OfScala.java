package harness;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;

/** Types that a job must use instead of Scala's, because this release line has no Scala API. */
public final class OfScala {
    private OfScala() {}

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static TypeInformation<Object> option() {
        return (TypeInformation) Types.STRING;
    }

    public static Object option(String text) {
        return text;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static TypeInformation<Object> enumeration() {
        return (TypeInformation) Types.INT;
    }

    public static Object enumeration(int id) {
        return id;
    }
}
