{{/* Parts that all pods share. */}}

{{/* Labels and annotations of a pod. Arguments: `root`, `component`, and `section` of the values, with more labels and
annotations. */}}
{{- define "rescale.pod.metadata" -}}
{{- $labels := include "rescale.selector" .root | fromYaml }}
{{- $_ := set $labels "app.kubernetes.io/component" .component }}
{{- if and (not .root.Values.istio.sidecar) (ne .component "airflow") }}
{{- $_ := set $labels "sidecar.istio.io/inject" "false" }}
{{- end }}
labels: {{- merge $labels (.section.labels | default dict) | toYaml | nindent 2 }}
{{- $annotations := deepCopy (.section.annotations | default dict) }}
{{- if and (eq .component "driver") .root.Values.metrics.enabled }}
{{- $path := "/metrics/executors/prometheus" }}
{{- $annotations = merge $annotations (dict "prometheus.io/scrape" "true" "prometheus.io/port" "4040" "prometheus.io/path" $path) }}
{{- end }}
{{- with $annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "rescale.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Items of a list in the values, to be appended to the chart's own items. */}}
{{- define "rescale.items" -}}
{{- with . }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A value as users write it: Helm itself would print a large number as 1.048576e+08. */}}
{{- define "rescale.scalar" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* Placement and priority of pods, from a section of the values. */}}
{{- define "rescale.placement" -}}
{{- range $name := list "priorityClassName" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with get $ $name }}
{{ $name }}: {{- if kindIs "string" . }} {{ quote . }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rescale.podSecurity" -}}
{{ toYaml .Values.security.pod }}
{{- end }}

{{- define "rescale.containerSecurity" -}}
{{ toYaml .Values.security.container }}
{{- end }}

{{/* Access to S3, as the environment of a container. */}}
{{- define "rescale.s3.env" -}}
{{- with .Values.s3.endpoint }}
- name: AWS_ENDPOINT_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.s3.addressingStyle }}
- name: AWS_VIRTUAL_HOSTED_STYLE_REQUEST
  value: {{ eq . "virtual" | quote }}
{{- end }}
{{- with .Values.s3.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- with .Values.s3.encryption }}
- name: AWS_SERVER_SIDE_ENCRYPTION
  value: {{ . | quote }}
{{- end }}
{{- with .Values.s3.kmsKey }}
- name: AWS_SSE_KMS_KEY_ID
  value: {{ . | quote }}
{{- end }}
{{- if .Values.s3.requesterPays }}
- name: AWS_REQUEST_PAYER
  value: requester
{{- end }}
{{- with .Values.s3.source.endpoint }}
- name: RESCALE_SOURCE_AWS_ENDPOINT_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.s3.source.addressingStyle }}
- name: RESCALE_SOURCE_AWS_VIRTUAL_HOSTED_STYLE_REQUEST
  value: {{ eq . "virtual" | quote }}
{{- end }}
{{- with .Values.s3.source.region }}
- name: RESCALE_SOURCE_AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- if .Values.caBundle.configMap }}
- name: AWS_CA_BUNDLE
  value: /etc/rescale/ca/bundle.crt
{{- end }}
{{- end }}

{{- define "rescale.s3.envFrom" -}}
{{- with .Values.s3.secret }}
- secretRef: {name: {{ . | quote }}}
{{- end }}
{{- with .Values.s3.source.secret }}
- prefix: RESCALE_SOURCE_
  secretRef: {name: {{ . | quote }}}
{{- end }}
{{- end }}

{{/* Proxy and trusted certificates for connections out of the cluster. Connections inside it do not use the proxy. */}}
{{- define "rescale.network.env" -}}
{{- if .Values.caBundle.configMap }}
- name: SSL_CERT_FILE
  value: /etc/rescale/ca/bundle.crt
- name: REQUESTS_CA_BUNDLE
  value: /etc/rescale/ca/bundle.crt
{{- end }}
{{- $proxy := .Values.proxy }}
{{- if or $proxy.http $proxy.https }}
{{- $except := concat (list "localhost" "127.0.0.1" "$(KUBERNETES_SERVICE_HOST)" ".svc" ".cluster.local") $proxy.except }}
{{- $variables := dict "http_proxy" $proxy.http "https_proxy" $proxy.https "no_proxy" (join "," $except) }}
{{- range $name, $value := $variables }}
{{- if $value }}
- name: {{ $name }}
  value: {{ $value | quote }}
- name: {{ upper $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rescale.ca.volume" -}}
{{- with .Values.caBundle.configMap }}
- name: ca-bundle
  configMap:
    name: {{ . | quote }}
    items: [{key: {{ $.Values.caBundle.key | quote }}, path: bundle.crt}]
{{- end }}
{{- end }}

{{- define "rescale.ca.mount" -}}
{{- if .Values.caBundle.configMap }}
- {name: ca-bundle, mountPath: /etc/rescale/ca, readOnly: true}
{{- end }}
{{- end }}

{{/* The volume for all files that a pod writes. Spark uses a volume of this name for its shuffle. */}}
{{- define "rescale.scratch" -}}
- name: spark-local-dir-1
  {{- if .Values.scratch.storageClass }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: {{ .Values.scratch.storageClass | quote }}
        resources: {requests: {storage: {{ include "rescale.scalar" .Values.scratch.size | quote }}}}
  {{- else }}
  emptyDir: {sizeLimit: {{ include "rescale.scalar" .Values.scratch.size | quote }}}
  {{- end }}
{{- end }}

{{/* Resource requests of a container, as YAML: `requests`, and disk space of the node. Arguments: `root`, `requests`. */}}
{{- define "rescale.scratch.requests" -}}
{{- $disk := dict }}
{{- if not .root.Values.scratch.storageClass }}{{ $disk = dict "ephemeral-storage" .root.Values.scratch.size }}{{ end }}
{{- merge (deepCopy (.requests | default dict)) $disk | toYaml }}
{{- end }}
