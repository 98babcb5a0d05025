{{/* Metadata and spec of an executor's pod; Spark adds image, command and resources. */}}
{{- define "rescale.executor.pod" -}}
{{- $executors := .Values.executors -}}
metadata: {{- include "rescale.pod.metadata" (dict "root" . "component" "executor" "section" $executors) | nindent 2 }}
spec:
  automountServiceAccountToken: false
  securityContext: {{- include "rescale.podSecurity" . | nindent 4 }}
  {{- include "rescale.pullSecrets" . | nindent 2 }}
  {{- include "rescale.placement" $executors | nindent 2 }}
  containers:
    - name: executor
      {{- with print (include "rescale.s3.env" .) (include "rescale.network.env" .) (include "rescale.items" $executors.env) | trim }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with include "rescale.s3.envFrom" . }}
      envFrom: {{- . | nindent 8 }}
      {{- end }}
      resources:
        requests: {{- include "rescale.scratch.requests" (dict "root" . "requests" dict) | nindent 10 }}
      securityContext: {{- include "rescale.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: spark-local-dir-1, mountPath: /tmp}
        {{- include "rescale.ca.mount" . | nindent 8 }}
        {{- include "rescale.items" $executors.volumeMounts | nindent 8 }}
  volumes:
    {{- include "rescale.scratch" . | nindent 4 }}
    {{- include "rescale.ca.volume" . | nindent 4 }}
    {{- include "rescale.items" $executors.volumes | nindent 4 }}
{{- end }}
