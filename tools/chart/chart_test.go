package chart

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	metacheck "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// "helm lint" has nothing to say but that there is no icon.
func TestLint(t *testing.T) {
	t.Parallel()
	for env, file := range environments {
		for _, m := range lint.All(charts+"/busbar", valuesOf(t, file), namespace, true).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %s: %v", env, m.Path, m.Err)
			}
		}
	}
}

// Names and labels are such that Kubernetes takes them, and each object is there once.
func TestNames(t *testing.T) {
	each(t, func(t *testing.T, r release) {
		seen := map[string]bool{}
		for _, o := range r {
			what := fmt.Sprintf("%T %s", o, o.GetName())
			if seen[what] {
				t.Errorf("%s is there twice", what)
			}
			seen[what] = true
			for _, problem := range validation.IsDNS1123Label(o.GetName()) {
				t.Errorf("%s: %s", what, problem)
			}
			if problems := metacheck.ValidateLabels(o.GetLabels(), field.NewPath("labels")); len(problems) > 0 {
				t.Errorf("%s: %v", what, problems)
			}
			if o.GetLabels()["app.kubernetes.io/instance"] != name {
				t.Errorf("%s lacks the label of its release", what)
			}
		}
	})
}

// Each workload selects its own pods and no others, and so do the objects that look after them.
func TestSelectors(t *testing.T) {
	each(t, func(t *testing.T, r release) {
		all := workloads(r)
		if len(all) == 0 {
			t.Fatal("no workloads")
		}
		one := func(what string, selector labels.Selector, want string) {
			var selected []string
			for _, w := range all {
				if selector.Matches(labels.Set(w.pod.Labels)) {
					selected = append(selected, w.GetName())
				}
			}
			if len(selected) != 1 || selected[0] != want {
				t.Errorf("%s selects %q, want %s alone", what, selected, want)
			}
		}
		for _, w := range all {
			one(w.kind+" "+w.GetName(), selects(t, w.selector), w.GetName())
			for _, c := range w.pod.Spec.TopologySpreadConstraints {
				one("spread of "+w.GetName(), selects(t, c.LabelSelector), w.GetName())
			}
			if !has[*core.ServiceAccount](r, w.pod.Spec.ServiceAccountName) {
				t.Errorf("%s: no ServiceAccount %s", w.GetName(), w.pod.Spec.ServiceAccountName)
			}
			if !has[*policy.PodDisruptionBudget](r, w.GetName()) {
				t.Errorf("%s has no PodDisruptionBudget", w.GetName())
			}
			if w.service != "" && !has[*core.Service](r, w.service) {
				t.Errorf("%s: no Service %s", w.GetName(), w.service)
			}
		}
		for _, b := range of[*policy.PodDisruptionBudget](r) {
			one("PodDisruptionBudget "+b.Name, selects(t, b.Spec.Selector), b.Name)
			if b.Spec.MaxUnavailable == nil || *b.Spec.MaxUnavailable != intstr.FromInt32(1) {
				t.Errorf("PodDisruptionBudget %s lets %v pods go", b.Name, b.Spec.MaxUnavailable)
			}
		}
		for _, s := range of[*core.Service](r) {
			one("Service "+s.Name, labels.SelectorFromSet(s.Spec.Selector), strings.TrimSuffix(s.Name, "-pods"))
			for _, w := range all {
				for _, p := range s.Spec.Ports {
					if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.pod.Labels)) && w.port(p.TargetPort.StrVal) != p.Port {
						t.Errorf("Service %s: port %d is %q of %s, which is %d", s.Name, p.Port, p.TargetPort.StrVal, w.GetName(), w.port(p.TargetPort.StrVal))
					}
				}
			}
		}
	})
}

func selects(t *testing.T, s *meta.LabelSelector) labels.Selector {
	t.Helper()
	selector, err := meta.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

// external are the Secrets and ConfigMaps that somebody else makes; docs/guides/deploy.md names
// each.
func external(w workload) []string {
	return []string{"busbar-bus-" + w.component, "busbar-bus-metrics", "postgres-app", "postgres-ca", "busbar-audit", "busbar-access", "busbar-github", "busbar-model", "edge-tls"}
}

// Pods meet Kubernetes's own standard "restricted", and every object that a pod refers to exists.
func TestPods(t *testing.T) {
	evaluator, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, r release) {
		for _, w := range workloads(r) {
			spec := w.pod.Spec
			for _, minor := range []int{oldest(t), newest(t)} {
				for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.MajorMinorVersion(1, minor)}, &w.pod.ObjectMeta, &spec) {
					if !result.Allowed {
						t.Errorf("%s, Kubernetes 1.%d: %s: %s", w.GetName(), minor, result.ForbiddenReason, result.ForbiddenDetail)
					}
				}
			}
			c := spec.Containers[0]
			if sc := c.SecurityContext; sc.ReadOnlyRootFilesystem == nil || !*sc.ReadOnlyRootFilesystem {
				t.Errorf("%s writes to its root file system", w.GetName())
			}
			if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
				t.Errorf("%s is given a token of Kubernetes", w.GetName())
			}
			if len(c.Resources.Requests) < 2 || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s has resources %v", w.GetName(), c.Resources)
			}
			if image, tag, ok := strings.Cut(c.Image, ":"); !ok || tag == "" || tag == "latest" || strings.HasPrefix(image, "/") {
				t.Errorf("%s has image %s", w.GetName(), c.Image)
			}
			checkVolumes(t, r, w)
			checkProbes(t, w)
		}
	})
}

// checkVolumes reports mounts without a volume, volumes without a mount, and files of settings that
// are in no volume.
func checkVolumes(t *testing.T, r release, w workload) {
	t.Helper()
	volumes := map[string]bool{}
	for _, claim := range w.claims {
		volumes[claim.Name] = true
	}
	for _, v := range w.pod.Spec.Volumes {
		volumes[v.Name] = true
		switch {
		case v.Secret != nil:
			if !slices.Contains(external(w), v.Secret.SecretName) {
				t.Errorf("%s: nobody makes Secret %s", w.GetName(), v.Secret.SecretName)
			}
			if *v.Secret.DefaultMode != 0o440 {
				t.Errorf("%s: Secret %s has mode %o", w.GetName(), v.Secret.SecretName, *v.Secret.DefaultMode)
			}
		case v.ConfigMap != nil:
			if !has[*core.ConfigMap](r, v.ConfigMap.Name) && !slices.Contains(external(w), v.ConfigMap.Name) {
				t.Errorf("%s: nobody makes ConfigMap %s", w.GetName(), v.ConfigMap.Name)
			}
		case v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil:
			t.Errorf("%s: volume %s is of another kind, or without bound", w.GetName(), v.Name)
		}
	}
	var mounts []string
	for _, m := range w.pod.Spec.Containers[0].VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s mounts %s, which is no volume", w.GetName(), m.Name)
		}
		delete(volumes, m.Name)
		mounts = append(mounts, m.MountPath+"/")
	}
	if len(volumes) > 0 {
		t.Errorf("%s mounts nothing of %v", w.GetName(), volumes)
	}
	for setting, value := range w.settings() {
		if strings.HasPrefix(value, "/") && !slices.ContainsFunc(mounts, func(m string) bool { return strings.HasPrefix(value+"/", m) }) {
			t.Errorf("%s: %s is %s, where nothing is mounted", w.GetName(), setting, value)
		}
	}
}

// checkProbes looks for ports that are not there, and for a pod that is killed before its
// program has given up by itself.
func checkProbes(t *testing.T, w workload) {
	t.Helper()
	c := w.pod.Spec.Containers[0]
	for path, p := range map[string]*core.Probe{"/healthz": c.StartupProbe, "/readyz": c.ReadinessProbe, "/healthz ": c.LivenessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != strings.TrimSpace(path) {
			t.Fatalf("%s: probe of %s: %v", w.GetName(), path, p)
		}
		if listens := w.settings()["BUSBAR_METRICS_LISTEN"]; listens != fmt.Sprintf(":%d", w.port(p.HTTPGet.Port.StrVal)) {
			t.Errorf("%s: the probe asks port %v, and the program listens at %s", w.GetName(), p.HTTPGet.Port, listens)
		}
		if encrypted := w.settings()["BUSBAR_TLS_CERT"] != ""; encrypted != (p.HTTPGet.Scheme == core.URISchemeHTTPS) {
			t.Errorf("%s: the probe speaks %s", w.GetName(), p.HTTPGet.Scheme)
		}
	}
	if p := c.StartupProbe; p.PeriodSeconds*p.FailureThreshold < startTime+10 {
		t.Errorf("%s is killed while it starts, after %d s", w.GetName(), p.PeriodSeconds*p.FailureThreshold)
	}
}

// startTime is how long a program waits for its bus and its database, in seconds: startTime of libs/service,
// connectTime of services/edge.
const startTime = 30

// A pod has the time that its program takes to end calls in flight: docs/reference/limits.md.
func TestStopping(t *testing.T) {
	var service, edge, leave int64
	for line := range strings.Lines(read(t, root+"/docs/reference/limits.md")) {
		for row, seconds := range map[string]*int64{
			"calls in flight after a service is told to stop": &service,
			"calls in flight after an edge is told to stop":   &edge,
			// The probes of a pod ask for /readyz, so its edge takes requests on for a while.
			"a stopping edge still takes requests, if `/readyz` was asked for (`BUSBAR_LEAVE_TIME`)": &leave,
		} {
			if said, ok := strings.CutPrefix(line, "| "+row+" |"); ok {
				if _, err := fmt.Sscanf(said, " %d s", seconds); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if service == 0 || edge == 0 || leave == 0 {
		t.Fatal("docs/reference/limits.md does not say how long calls in flight get")
	}
	each(t, func(t *testing.T, r release) {
		for _, w := range workloads(r) {
			need := service
			if w.component == "edge" {
				need = leave + edge
				if w.pod.Spec.Containers[0].Lifecycle == nil {
					t.Fatal("an edge closes its port before everybody knows that it leaves")
				}
			}
			if l := w.pod.Spec.Containers[0].Lifecycle; l != nil {
				need += l.PreStop.Sleep.Seconds
			}
			if has := *w.pod.Spec.TerminationGracePeriodSeconds; has < need+10 {
				t.Errorf("%s is killed after %d s, and may take %d s", w.GetName(), has, need)
			}
		}
	})
}

// Each autoscaler has its target, and valid bounds.
func TestAutoscaling(t *testing.T) {
	each(t, func(t *testing.T, r release) {
		scaled := map[string]bool{}
		for _, h := range of[*autoscaling.HorizontalPodAutoscaler](r) {
			target := h.Spec.ScaleTargetRef
			if !slices.ContainsFunc(workloads(r), func(w workload) bool { return w.GetName() == target.Name && w.kind == target.Kind }) {
				t.Errorf("%s scales %s %s, which is not there", h.Name, target.Kind, target.Name)
			}
			if *h.Spec.MinReplicas < 2 || h.Spec.MaxReplicas < *h.Spec.MinReplicas || len(h.Spec.Metrics) == 0 {
				t.Errorf("%s: %d to %d by %v", h.Name, *h.Spec.MinReplicas, h.Spec.MaxReplicas, h.Spec.Metrics)
			}
			scaled[target.Name] = true
		}
		for _, w := range workloads(r) {
			if fixed := w.replicas != nil; fixed == scaled[w.GetName()] {
				t.Errorf("%s: replicas are said: %t, scaled: %t", w.GetName(), fixed, scaled[w.GetName()])
			}
		}
	})
}

// The way in leads to the port of the edges.
func TestWayIn(t *testing.T) {
	each(t, func(t *testing.T, r release) {
		services := of[*core.Service](r)
		edge := services[slices.IndexFunc(services, func(s *core.Service) bool { return s.Name == "busbar-edge" })]
		hosts := ""
		for _, w := range workloads(r) {
			if w.component == "edge" {
				hosts = "," + w.settings()["BUSBAR_ALLOW_HOST"] + ","
			}
		}
		for _, i := range of[*networking.Ingress](r) {
			for _, rule := range i.Spec.Rules {
				if b := rule.HTTP.Paths[0].Backend.Service; b.Name != edge.Name || !slices.ContainsFunc(edge.Spec.Ports, func(p core.ServicePort) bool { return p.Name == b.Port.Name }) {
					t.Errorf("Ingress: backend %v", b)
				}
				if !strings.Contains(hosts, ","+rule.Host+",") {
					t.Errorf("the edges do not answer to %s, but to %s", rule.Host, hosts)
				}
			}
		}
		for _, route := range of[*gateway.HTTPRoute](r) {
			b := route.Spec.Rules[0].BackendRefs[0]
			if string(b.Name) != edge.Name || *b.Port != gateway.PortNumber(edge.Spec.Ports[0].Port) || len(route.Spec.ParentRefs) == 0 {
				t.Errorf("HTTPRoute: backend %v, parents %v", b, route.Spec.ParentRefs)
			}
		}
		for _, m := range of[*monitoring.PodMonitor](r) {
			if _, err := meta.LabelSelectorAsSelector(&m.Spec.Selector); err != nil || *m.Spec.PodMetricsEndpoints[0].Port != "probe" {
				t.Errorf("PodMonitor %s: %v, %v", m.Name, m.Spec.PodMetricsEndpoints, err)
			}
		}
	})
}

// The alerts of the compose file are the alerts of the cluster, where somebody is to be told.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var want monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(read(t, root+"/deploy/compose/alerts.yml")), &want); err != nil || len(want.Groups) == 0 {
		t.Fatalf("%d groups: %v", len(want.Groups), err)
	}
	for env, told := range map[string]bool{"dev": false, "staging": true, "production": true, "everything": true} {
		rules := of[*monitoring.PrometheusRule](objects(t, valuesOf(t, environments[env])))
		if told != (len(rules) == 1) || told && !reflect.DeepEqual(rules[0].Spec, want) {
			t.Errorf("%s has %d objects with alerts, or others than deploy/compose/alerts.yml", env, len(rules))
		}
	}
}

// Values that nobody means are refused, and said where.
func TestSchema(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{workload: {replica: 2}}":                                   "replica",
		"{workloads: {edge: {env: {BUSBAR_GITHUB_TOKEN: x}}}}":       "BUSBAR_GITHUB_TOKEN",
		"{workloads: {Text: {}}}":                                    "Text",
		`{bus: {url: "tls://user:secret@nats:4222"}}`:                "bus",
		"{networkPolicy: {clients: []}}":                             "clients",
		"{gateway: {enabled: true}}":                                 "parentRefs",
		"{workloads: {text: {files: {BUSBAR_X_FILE: {secret: x}}}}}": "key",
		"{log: {level: loud}}":                                       "level",
		"{workloads: {text: {autoscaling: {enabled: true}}}}":        "needs a target",
		"{ingress: {enabled: true}}":                                 "clients.hosts is empty",
	} {
		if _, err := render(parse(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", text, err, want)
		}
	}
}

// The notes name a next step that fits.
func TestNotes(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{"default": "refused until clients.hosts", "dev": "tools --url http://localhost:8000", "production": "tools --url https://mcp.example.com"} {
		rendered, err := render(valuesOf(t, environments[env]))
		if err != nil {
			t.Fatal(err)
		}
		if notes := rendered["busbar/templates/NOTES.txt"]; !strings.Contains(notes, want) {
			t.Errorf("%s: the notes lack %q:\n%s", env, want, notes)
		}
	}
}
