{{/* Spark configuration of a driver. Executors reach the driver's pod at its address, and are deleted with it. */}}
{{- define "rescale.spark.conf" -}}
spark.master k8s://https://kubernetes.default.svc
spark.kubernetes.namespace {{ .Release.Namespace }}
spark.kubernetes.driver.pod.name ${env:POD_NAME}
spark.driver.host ${env:POD_IP}
spark.driver.bindAddress ${env:POD_IP}
spark.driver.port 7078
spark.blockManager.port 7079
spark.driver.memory {{ .Values.driver.memory }}
{{- if .Values.metrics.enabled }}
# The Prometheus servlet is part of the UI; users of the UI cannot end jobs.
spark.ui.enabled true
spark.ui.port 4040
spark.ui.killEnabled false
spark.ui.prometheus.enabled true
spark.executor.processTreeMetrics.enabled true
spark.metrics.namespace rescale
spark.metrics.conf.*.sink.prometheusServlet.class org.apache.spark.metrics.sink.PrometheusServlet
spark.metrics.conf.*.sink.prometheusServlet.path /metrics/prometheus
{{- else }}
spark.ui.enabled false
{{- end }}
spark.local.dir /tmp
spark.executor.instances {{ .Values.executors.most }}
spark.executor.cores {{ .Values.executors.cores }}
spark.executor.memory {{ .Values.executors.memory }}
{{- with .Values.executors.memoryOverhead }}
spark.executor.memoryOverhead {{ . }}
{{- end }}
{{- with .Values.executors.cpuRequest }}
spark.kubernetes.executor.request.cores {{ . }}
{{- end }}
spark.kubernetes.container.image {{ include "rescale.image.spark" . }}
spark.kubernetes.container.image.pullPolicy {{ .Values.image.pullPolicy }}
spark.kubernetes.authenticate.executor.serviceAccountName {{ include "rescale.account" (dict "root" . "account" "executor") }}
spark.kubernetes.executor.podTemplateFile /etc/rescale/spark/executor.yaml
spark.kubernetes.executor.podTemplateContainerName executor
# The driver creates no ConfigMaps, services or volume claims, so it needs no right to delete them.
spark.kubernetes.executor.disableConfigMap true
spark.kubernetes.driver.service.deleteOnTermination false
spark.kubernetes.driver.ownPersistentVolumeClaim false
{{- if .Values.spark.authenticate }}
# Each driver generates a secret, and passes it to its executors in their environment.
spark.authenticate true
{{- end }}
{{- if .Values.spark.encrypt }}
spark.network.crypto.enabled true
spark.network.crypto.cipher AES/GCM/NoPadding
{{- end }}
{{- if .Values.run.sparkOperator }}
# The operator finds the executors of its application by these labels.
spark.kubernetes.executor.label.sparkoperator.k8s.io/app-name ${env:SPARK_APPLICATION_NAME}
spark.kubernetes.executor.label.sparkoperator.k8s.io/submission-id ${env:SPARK_SUBMISSION_ID}
spark.kubernetes.executor.label.sparkoperator.k8s.io/launched-by-spark-operator true
{{- end }}
{{- range $name, $value := .Values.spark.conf }}
{{ $name }} {{ include "rescale.scalar" $value }}
{{- end }}
{{- end }}
