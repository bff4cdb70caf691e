{{/* The pod of a workload: (list . NAME WORKLOAD). */}}
{{- define "busbar.pod" -}}
{{- $top := index . 0 -}}{{- $name := index . 1 -}}{{- $w := index . 2 -}}
{{- $v := $top.Values -}}
{{- $probe := dict "port" "probe" "scheme" (include "busbar.scheme" (list $top $name) | upper) -}}
metadata:
  labels: {{- include "busbar.labels" (list $top $name) | nindent 4 }}
  {{- with $w.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ $top.Release.Name }}-{{ $name }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $w.stopping.within }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets: {{- range . }}
    - name: {{ . }}
  {{- end }}
  {{- end }}
  {{- with $w.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $w.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $w.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $w.spread }}
  topologySpreadConstraints: {{- range . }}
    - {{- toYaml . | nindent 6 }}
      labelSelector:
        matchLabels: {{- include "busbar.selector" (list $top $name) | nindent 10 }}
  {{- end }}
  {{- end }}
  containers:
    - name: {{ $name }}
      image: {{ printf "%s/%s:%s" $v.image.repository ($w.image | default $name) (include "busbar.tag" $top) }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      {{- with $w.args }}
      args: {{- toYaml . | nindent 8 }}
      {{- end }}
      env: {{- include "busbar.env" . | nindent 8 }}
      ports:
        - {name: probe, containerPort: 9100}
        {{- if eq $name "edge" }}
        - {name: http, containerPort: 8000}
        - {name: grpc, containerPort: 8001}
        {{- end }}
      # It gives up by itself, with the reason, when its bus or database is not there in 30 s.
      startupProbe:
        httpGet: {{- toYaml (merge (dict "path" "/healthz") $probe) | nindent 10 }}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 30
      readinessProbe:
        httpGet: {{- toYaml (merge (dict "path" "/readyz") $probe) | nindent 10 }}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 2
      livenessProbe:
        httpGet: {{- toYaml (merge (dict "path" "/healthz") $probe) | nindent 10 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      {{- if $w.stopping.after }}
      lifecycle: {preStop: {sleep: {seconds: {{ $w.stopping.after }}}}}
      {{- end }}
      resources: {{- toYaml $w.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: bus, mountPath: /bus, readOnly: true}
        - {name: metrics, mountPath: /metrics, readOnly: true}
        {{- if $w.disk.size }}
        - {name: data, mountPath: /data}
        {{- end }}
        {{- if $w.database }}
        - {name: database, mountPath: /database, readOnly: true}
        {{- if $v.database.ca.secret }}
        - {name: database-ca, mountPath: /database-ca, readOnly: true}
        {{- end }}
        {{- end }}
        {{- if eq $name "edge" }}
        - {name: access, mountPath: /etc/busbar, readOnly: true}
        {{- if $v.clients.tlsSecret }}
        - {name: tls, mountPath: /tls, readOnly: true}
        {{- end }}
        {{- end }}
        {{- range $variable, $_ := $w.files }}
        - {name: {{ include "busbar.volume" $variable }}, mountPath: /files/{{ include "busbar.volume" $variable }}, readOnly: true}
        {{- end }}
  volumes:
    - name: bus
      secret: {secretName: {{ $v.bus.secrets }}-{{ $name }}, defaultMode: 0440}
    - name: metrics
      secret: {secretName: {{ $v.bus.secrets }}-metrics, defaultMode: 0440}
    {{- if and $w.disk.size $w.disk.ephemeral }}
    - name: data
      emptyDir: {sizeLimit: {{ $w.disk.size }}}
    {{- end }}
    {{- if $w.database }}
    - name: database
      secret: {secretName: {{ $v.database.secret }}, defaultMode: 0440}
    {{- if $v.database.ca.secret }}
    - name: database-ca
      secret:
        secretName: {{ $v.database.ca.secret }}
        defaultMode: 0440
        items: [{key: {{ $v.database.ca.key }}, path: {{ $v.database.ca.key }}}] # not the authority's key
    {{- end }}
    {{- end }}
    {{- if eq $name "edge" }}
    - name: access
      configMap: {name: {{ include "busbar.access" $top }}}
    {{- with $v.clients.tlsSecret }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- end }}
    {{- range $variable, $file := $w.files }}
    - name: {{ include "busbar.volume" $variable }}
      secret: {secretName: {{ $file.secret }}, defaultMode: 0440}
    {{- end }}
{{- end -}}

{{/* The settings of a workload: (list . NAME WORKLOAD). */}}
{{- define "busbar.env" -}}
{{- $top := index . 0 -}}{{- $name := index . 1 -}}{{- $w := index . 2 -}}
{{- $v := $top.Values -}}
{{- $env := dict
  "BUSBAR_NATS" $v.bus.url
  "BUSBAR_NATS_NKEY" (printf "/bus/%s.secret" $name)
  "BUSBAR_LOG_JSON" "true"
  "BUSBAR_LOG_LEVEL" $v.log.level
  "BUSBAR_METRICS_LISTEN" ":9100"
  "BUSBAR_METRICS_TOKEN_FILE" "/metrics/metrics.token" -}}
{{- with $v.bus.ca -}}{{- $_ := set $env "BUSBAR_NATS_CA" (printf "/bus/%s" .) -}}{{- end -}}
{{- with $v.traces.endpoint -}}{{- $_ := set $env "OTEL_EXPORTER_OTLP_ENDPOINT" . -}}{{- end -}}
{{- if $w.disk.size -}}{{- $_ := set $env "BUSBAR_DATA_DIR" "/data" -}}{{- end -}}
{{- if $w.database -}}
{{- $_ := set $env "BUSBAR_DATABASE_URL_FILE" (printf "/database/%s" $v.database.key) -}}
{{- if $v.database.ca.secret -}}
{{- $_ := mergeOverwrite $env (dict "PGSSLMODE" "verify-full" "PGSSLROOTCERT" (printf "/database-ca/%s" $v.database.ca.key)) -}}
{{- end -}}
{{- end -}}
{{- if eq $name "edge" -}}
{{- $service := printf "%s-edge" $top.Release.Name -}}
{{- $hosts := list $service (printf "%s.%s" $service $top.Release.Namespace) (printf "%s.%s.svc" $service $top.Release.Namespace) -}}
{{- $_ := mergeOverwrite $env (dict
  "BUSBAR_LISTEN" ":8000" "BUSBAR_GRPC_LISTEN" ":8001"
  "BUSBAR_ACCESS" "/etc/busbar/access.yaml"
  "BUSBAR_ALLOW_HOST" (concat $v.clients.hosts $hosts | join ",")) -}}
{{- with $v.clients.origins -}}{{- $_ := set $env "BUSBAR_ALLOW_ORIGIN" (join "," .) -}}{{- end -}}
{{- if $v.clients.tlsSecret -}}
{{- $_ := mergeOverwrite $env (dict "BUSBAR_TLS_CERT" "/tls/tls.crt" "BUSBAR_TLS_KEY" "/tls/tls.key") -}}
{{- else -}}
{{- $_ := set $env "BUSBAR_TLS_BY_PROXY" "true" -}}
{{- end -}}
{{- if $w.disk.size -}}{{- $_ := set $env "BUSBAR_AUDIT_SPOOL" "/data/spool" -}}{{- end -}}
{{- end -}}
{{- range $variable, $file := $w.files -}}
{{- $_ := set $env $variable (printf "/files/%s/%s" (include "busbar.volume" $variable) $file.key) -}}
{{- end -}}
{{- $env = mergeOverwrite $env (deepCopy $w.env) -}}
{{- range $variable, $value := $env -}}
- {name: {{ $variable }}, value: {{ toString $value | quote }}}
{{ end -}}
{{- end -}}
