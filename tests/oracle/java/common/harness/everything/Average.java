package harness.everything;

import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.java.tuple.Tuple2;

/** Total and number, shown as a fraction. */
final class Average implements AggregateFunction<Long, Tuple2<Long, Long>, String> {
    private static final long serialVersionUID = 1L;

    @Override
    public Tuple2<Long, Long> createAccumulator() {
        return Tuple2.of(0L, 0L);
    }

    @Override
    public Tuple2<Long, Long> add(Long amount, Tuple2<Long, Long> sums) {
        return Tuple2.of(sums.f0 + amount, sums.f1 + 1);
    }

    @Override
    public String getResult(Tuple2<Long, Long> sums) {
        return sums.f0 + "/" + sums.f1;
    }

    @Override
    public Tuple2<Long, Long> merge(Tuple2<Long, Long> left, Tuple2<Long, Long> right) {
        return Tuple2.of(left.f0 + right.f0, left.f1 + right.f1);
    }
}
