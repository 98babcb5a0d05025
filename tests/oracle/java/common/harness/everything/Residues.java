package harness.everything;

import harness.Feed;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Counts events per residue of the amount, in an operator without a uid; timers emit the counts at the end. */
final class Residues extends KeyedProcessFunction<Integer, Tuple3<Long, Integer, Long>, String> {
    private static final long serialVersionUID = 1L;
    private static final ValueStateDescriptor<Long> COUNT = new ValueStateDescriptor<>("count", Types.LONG);

    static int residue(Tuple3<Long, Integer, Long> event) {
        return (int) (event.f2 % 11);
    }

    @Override
    public void processElement(Tuple3<Long, Integer, Long> event, Context context, Collector<String> out)
            throws Exception {
        ValueState<Long> count = getRuntimeContext().getState(COUNT);
        count.update(count.value() == null ? 1 : count.value() + 1);
        context.timerService().registerEventTimeTimer(2 * Feed.PAUSE);
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
        out.collect("residue " + context.getCurrentKey() + " x " + getRuntimeContext().getState(COUNT).value());
    }
}
