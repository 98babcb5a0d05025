package org.apache.flink.api.common.serialization;

/** What releases before 1.19 lack, and took an `ExecutionConfig` for. */
public interface SerializerConfig {}
