package harness;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.scala.typeutils.OptionTypeInfo;
import scala.Option;

/** A type of Flink's Scala API, which this release line has. */
public final class OfScala {
    private OfScala() {}

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static TypeInformation<Object> option() {
        return (TypeInformation) new OptionTypeInfo<>(Types.STRING);
    }

    public static Object option(String text) {
        return Option.apply(text);
    }
}
