package harness;

import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;

/** The base class of sources that are plain functions, where this release line keeps it. */
public abstract class LegacySource<T> extends RichParallelSourceFunction<T> {}
