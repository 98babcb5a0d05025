package harness;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.scala.typeutils.EnumValueTypeInfo;
import org.apache.flink.api.scala.typeutils.OptionTypeInfo;
import scala.Enumeration;
import scala.Option;
import scala.math.BigDecimal;

/** Types of Flink's Scala API, which this release line has. */
public final class OfScala {
    private OfScala() {}

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static TypeInformation<Object> option() {
        return (TypeInformation) new OptionTypeInfo<>(Types.STRING);
    }

    public static Object option(String text) {
        return Option.apply(text);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static TypeInformation<Object> enumeration() {
        return (TypeInformation) new EnumValueTypeInfo(BigDecimal.RoundingMode$.MODULE$, Enumeration.Value.class);
    }

    public static Object enumeration(int id) {
        return BigDecimal.RoundingMode$.MODULE$.apply(id);
    }
}
