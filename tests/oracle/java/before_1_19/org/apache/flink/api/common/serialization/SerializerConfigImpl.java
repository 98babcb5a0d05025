package org.apache.flink.api.common.serialization;

import org.apache.flink.api.common.ExecutionConfig;

/** Stand-in for a class of Flink 1.19; earlier releases used `ExecutionConfig`. */
public final class SerializerConfigImpl extends ExecutionConfig implements SerializerConfig {
    private static final long serialVersionUID = 1L;
}
