{{/* Every workload that is enabled, by name, with what all have. */}}
{{- define "busbar.workloads" -}}
{{- $all := dict -}}
{{- range $name, $own := .Values.workloads -}}
{{- $w := mergeOverwrite (deepCopy $.Values.workload) (deepCopy ($own | default dict)) -}}
{{- if $w.enabled -}}{{- $_ := set $all $name $w -}}{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* Names of the workloads that have something: (list . "database"). */}}
{{- define "busbar.with" -}}
{{- $names := list -}}
{{- range $name, $w := include "busbar.workloads" (index . 0) | fromYaml -}}
{{- if index $w (index $ 1) -}}{{- $names = append $names $name -}}{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* Labels of all pods of the release. */}}
{{- define "busbar.release" -}}
app.kubernetes.io/name: busbar
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of the pods of one workload: (list . "edge"). */}}
{{- define "busbar.selector" -}}
{{ include "busbar.release" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of an object: (list . "edge"). */}}
{{- define "busbar.labels" -}}
{{- $top := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ include "busbar.tag" $top | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
{{ include "busbar.selector" . }}
{{- end -}}

{{- define "busbar.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "busbar.access" -}}
{{- if .Values.access.policy -}}{{ .Release.Name }}-access{{- else -}}{{ .Values.access.configMap }}{{- end -}}
{{- end -}}

{{/* A workload that keeps a disk is a StatefulSet. */}}
{{- define "busbar.kind" -}}
{{- if and .disk.size (not .disk.ephemeral) -}}StatefulSet{{- else -}}Deployment{{- end -}}
{{- end -}}

{{/* How the probes of a workload are asked: (list . "edge"). The certificate of an edge is that of all its ports. */}}
{{- define "busbar.scheme" -}}
{{- if and (eq (index . 1) "edge") (index . 0).Values.clients.tlsSecret -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{/* The directory of the file that a variable names. */}}
{{- define "busbar.volume" -}}
{{ . | lower | replace "_" "-" }}
{{- end -}}
