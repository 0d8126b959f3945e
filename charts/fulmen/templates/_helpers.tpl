{{- define "fulmen.labels" -}}
app.kubernetes.io/name: fulmen-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "fulmen.selector" -}}
app.kubernetes.io/name: fulmen-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fulmen.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}-operator
{{- end }}

{{- /* What the operator may do in the namespaces that it looks after. */}}
{{- define "fulmen.rules" -}}
# What it is about: kopf lists and watches, a reconcile reads and writes the status.
- apiGroups: [fulmen.dev]
  resources: [topologies]
  verbs: [get, list, watch]
- apiGroups: [fulmen.dev]
  resources: [topologies/status]
  verbs: [patch]
# Drivers and preflights are made (create and patch: server-side apply) and deleted, workers of
# earlier attempts too. get and deletecollection are not the operator's: a Role can't be given
# rights that its giver does not have, and the driver needs them for its workers.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete, deletecollection]
# Plans and code. watch is the driver's.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# Made, and deleted by name, but never read.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, delete]
# One for drivers, one for workers.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [list, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [list, create, patch]
# The checkpoint's claim. It is deleted with its topology by the garbage collector, if so wished.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, create, patch]
# For topologies with networkPolicy: Restrict.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- if .Values.rbac.finalizers }}
# Where OwnerReferencesPermissionEnforcement is on: to own objects whose deletion is waited for, and
# to change who owns an object, which only who may delete it may do.
- apiGroups: [fulmen.dev]
  resources: [topologies/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [persistentvolumeclaims, serviceaccounts]
  verbs: [delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [delete]
{{- end }}
{{- end }}
