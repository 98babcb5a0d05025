{{- define "rescale.name" -}}
{{- if contains "rescale" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-rescale" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Labels of everything. */}}
{{- define "rescale.labels" -}}
{{ include "rescale.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "rescale.selector" -}}
app.kubernetes.io/name: rescale
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rescale.image.spark" -}}
{{ .Values.image.spark.repository }}:{{ .Values.image.spark.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "rescale.image.airflow" -}}
{{ .Values.image.airflow.repository }}:{{ .Values.image.airflow.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Whether pods are started by an Airflow: its own or another one. */}}
{{- define "rescale.withAirflow" -}}
{{- if or .Values.airflow.enabled .Values.existingAirflow.serviceAccounts }}yes{{ end }}
{{- end }}

{{/* The namespaces in which an Airflow runs, as JSON: its pods can mount what lies there. */}}
{{- define "rescale.airflow.namespaces" -}}
{{- $namespaces := list }}
{{- if .Values.airflow.enabled }}{{ $namespaces = append $namespaces .Release.Namespace }}{{ end }}
{{- range .Values.existingAirflow.serviceAccounts }}
{{- $namespaces = append $namespaces (.namespace | default $.Release.Namespace) }}
{{- end }}
{{- uniq $namespaces | toJson }}
{{- end }}

{{/* The service accounts of Airflow, as subjects of a binding. */}}
{{- define "rescale.airflow.subjects" -}}
{{- if .Values.airflow.enabled }}
- kind: ServiceAccount
  name: {{ include "rescale.name" . }}-airflow
  namespace: {{ .Release.Namespace }}
{{- end }}
{{- range .Values.existingAirflow.serviceAccounts }}
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .namespace | default $.Release.Namespace }}
{{- end }}
{{- end }}

{{- define "rescale.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "rescale.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "rescale.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Access to S3, as environment of a container. */}}
{{- define "rescale.s3.env" -}}
{{- with .Values.s3.endpoint }}
- name: AWS_ENDPOINT_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.s3.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "rescale.s3.envFrom" -}}
{{- with .Values.s3.secret }}
- secretRef: {name: {{ . }}}
{{- end }}
{{- end }}

{{/* The volume for everything that a pod writes. Spark takes one of this name for its shuffle. */}}
{{- define "rescale.scratch" -}}
- name: spark-local-dir-1
  {{- if .Values.scratch.storageClass }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: {{ .Values.scratch.storageClass }}
        resources: {requests: {storage: {{ .Values.scratch.size }}}}
  {{- else }}
  emptyDir: {sizeLimit: {{ .Values.scratch.size }}}
  {{- end }}
{{- end }}

{{- define "rescale.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The pod in which a driver runs; its parent is one of `root`, `args` (absent: who starts the pod gives them).
*/}}
{{- define "rescale.driver.spec" -}}
{{- $name := include "rescale.name" .root -}}
serviceAccountName: {{ $name }}-driver
restartPolicy: Never
securityContext: {{- include "rescale.podSecurity" .root | nindent 2 }}
{{- include "rescale.pullSecrets" .root }}
{{- include "rescale.placement" .root.Values.driver }}
containers:
  - name: driver
    image: {{ include "rescale.image.spark" .root }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    {{- with .args }}
    args: {{- toYaml . | nindent 6 }}
    {{- end }}
    env:
      - name: POD_NAME
        valueFrom: {fieldRef: {fieldPath: metadata.name}}
      - name: POD_IP
        valueFrom: {fieldRef: {fieldPath: status.podIP}}
      - name: SPARK_CONF_DIR
        value: /etc/rescale/spark
      {{- include "rescale.s3.env" .root | nindent 6 }}
    {{- with include "rescale.s3.envFrom" .root }}
    envFrom: {{- . | nindent 6 }}
    {{- end }}
    resources: {{- toYaml .root.Values.driver.resources | nindent 6 }}
    securityContext: {{- include "rescale.containerSecurity" .root | nindent 6 }}
    volumeMounts:
      - {name: spark, mountPath: /etc/rescale/spark, readOnly: true}
      - {name: spark-local-dir-1, mountPath: /tmp}
volumes:
  - name: spark
    configMap: {name: {{ $name }}-spark}
  {{- include "rescale.scratch" .root | nindent 2 }}
{{- end }}
