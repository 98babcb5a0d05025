package org.apache.flink.api.common.serialization;

/** Stand-in for a class of Flink 1.19; earlier releases used `ExecutionConfig`. */
public interface SerializerConfig {}
