package harness;

import org.apache.flink.streaming.api.functions.source.RichParallelSourceFunction;

/** Source function; the package of its base class differs between release lines. */
public abstract class LegacySource<T> extends RichParallelSourceFunction<T> {}
