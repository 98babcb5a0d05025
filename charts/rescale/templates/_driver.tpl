{{/*
Spec of a driver's pod. Arguments: `root`; `args` of the container (absent if the creator of the pod adds them);
`awaitsSecret`, whether the pod fails after three minutes without the Secret, instead of waiting for ever; and
`application`, whether Spark's operator starts the pod, and so dictates the name of the container.
*/}}
{{- define "rescale.driver.spec" -}}
{{- $driver := .root.Values.driver -}}
serviceAccountName: {{ include "rescale.account" (dict "root" .root "account" "driver") | quote }}
restartPolicy: Never
securityContext: {{- include "rescale.podSecurity" .root | nindent 2 }}
{{- include "rescale.pullSecrets" .root }}
{{- include "rescale.placement" $driver }}
{{- if and .awaitsSecret .root.Values.s3.secret }}
initContainers: {{- include "rescale.driver.awaitSecret" .root | nindent 2 }}
{{- end }}
containers:
  - name: {{ ternary "spark-kubernetes-driver" "driver" (not (not .application)) }}
    image: {{ include "rescale.image.spark" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    {{- with .args }}
    args: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- if .root.Values.metrics.enabled }}
    ports:
      - {name: metrics, containerPort: 4040}
    {{- end }}
    env:
      - name: POD_NAME
        valueFrom: {fieldRef: {fieldPath: metadata.name}}
      - name: POD_IP
        valueFrom: {fieldRef: {fieldPath: status.podIP}}
      {{- if .application }}
      - name: SPARK_APPLICATION_NAME
        valueFrom: {fieldRef: {fieldPath: "metadata.labels['sparkoperator.k8s.io/app-name']"}}
      - name: SPARK_SUBMISSION_ID
        valueFrom: {fieldRef: {fieldPath: "metadata.labels['sparkoperator.k8s.io/submission-id']"}}
      {{- else }}
      # Every try of a Job has these, and so goes on with the checkpoint of the first try.
      - name: RESCALE_JOB_NAME
        valueFrom: {fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/job-name']"}}
      - name: RESCALE_JOB_UID
        valueFrom: {fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/controller-uid']"}}
      - name: SPARK_CONF_DIR
        value: /etc/rescale/spark
      {{- end }}
      {{- with .root.Values.spark.eventLog }}
      - name: RESCALE_EVENT_LOG
        value: {{ . | quote }}
      {{- end }}
      {{- include "rescale.cluster.env" .root | nindent 6 }}
      {{- include "rescale.s3.env" .root | nindent 6 }}
      {{- include "rescale.network.env" .root | nindent 6 }}
      {{- include "rescale.items" $driver.env | nindent 6 }}
    {{- with include "rescale.s3.envFrom" .root }}
    envFrom: {{- . | nindent 6 }}
    {{- end }}
    resources:
      requests: {{- include "rescale.scratch.requests" (dict "root" .root "requests" $driver.resources.requests) | nindent 8 }}
      limits: {{- toYaml $driver.resources.limits | nindent 8 }}
    securityContext: {{- include "rescale.containerSecurity" .root | nindent 6 }}
    volumeMounts:
      - {name: spark, mountPath: /etc/rescale/spark, readOnly: true}
      - {name: spark-local-dir-1, mountPath: /tmp}
      {{- include "rescale.ca.mount" .root | nindent 6 }}
      {{- include "rescale.items" $driver.volumeMounts | nindent 6 }}
volumes:
  - name: spark
    configMap: {name: {{ include "rescale.name" .root }}-spark}
  {{- include "rescale.scratch" .root | nindent 2 }}
  {{- include "rescale.ca.volume" .root | nindent 2 }}
  {{- if and .awaitsSecret .root.Values.s3.secret }}
  - name: s3
    secret: {secretName: {{ .root.Values.s3.secret | quote }}, optional: true}
  {{- end }}
  {{- include "rescale.items" $driver.volumes | nindent 2 }}
{{- end }}

{{/* Init container that waits three minutes for the Secret, which may be created after the chart's resources. Without
this container, a pod with a missing Secret would wait for ever. */}}
{{- define "rescale.driver.awaitSecret" -}}
- name: secret
  image: {{ include "rescale.image.spark" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command:
    - sh
    - -c
    - |
      for _ in $(seq 36); do
        [ -z "$(ls /etc/rescale/s3)" ] || exit 0
        sleep 5
      done
      echo "error: the Secret $1 does not exist in this namespace, or is empty: create it with the keys" \
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and install the chart again" >&2
      exit 2
    - sh
    - {{ .Values.s3.secret | quote }}
  resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
  securityContext: {{- include "rescale.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - {name: s3, mountPath: /etc/rescale/s3, readOnly: true}
{{- end }}

{{/* Description of the cluster for the estimate of a plan: the largest number of executors, and the pods' limits. */}}
{{- define "rescale.cluster.env" -}}
- name: RESCALE_CLUSTER
  value: >-
    executors={{ .Values.executors.most }} cores={{ .Values.executors.cores }} scratch={{ include "rescale.scalar" .Values.scratch.size }}
    {{- with (.Values.driver.resources.limits | default dict).memory }} driver-memory={{ include "rescale.scalar" . }}{{ end }}
{{- end }}
