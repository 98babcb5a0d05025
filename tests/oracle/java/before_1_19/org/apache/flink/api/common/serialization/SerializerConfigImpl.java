package org.apache.flink.api.common.serialization;

import org.apache.flink.api.common.ExecutionConfig;

/** What releases before 1.19 lack, and took an `ExecutionConfig` for. */
public final class SerializerConfigImpl extends ExecutionConfig implements SerializerConfig {
    private static final long serialVersionUID = 1L;
}
