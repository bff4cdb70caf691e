package chart

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const compose = root + "/docker-compose.yml"

// Each program of the compose file, with all that can be switched on, has a workload that runs
// the same image with the same words, and the same settings but those that name a place.
func TestSameAsCompose(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Image       string
			Profiles    []string
			Command     []string
			Environment map[string]any
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, compose)), &file); err != nil {
		t.Fatal(err)
	}
	values := valuesOf(t, environments["everything"])
	values["clients"].(map[string]any)["tlsSecret"] = "" // the proxy of the compose file encrypts
	all := map[string]workload{}
	for _, w := range workloads(objects(t, values)) {
		all[w.component] = w
	}
	ours := regexp.MustCompile(`^\$\{BUSBAR_IMAGES:-busbar}/([a-z]+):`)
	seen := map[string]bool{}
	for part, s := range file.Services {
		secret, _ := s.Environment["BUSBAR_NATS_NKEY"].(string)
		component := strings.TrimSuffix(filepath.Base(secret), ".secret")
		image := ours.FindStringSubmatch(s.Image)
		if image == nil || secret == "" || slices.Contains(s.Profiles, "operator") {
			continue
		}
		seen[component] = true
		w, ok := all[component]
		if !ok {
			t.Errorf("%s of the compose file has no workload %s", part, component)
			continue
		}
		c := w.pod.Spec.Containers[0]
		if !strings.HasPrefix(c.Image, "busbar/"+image[1]+":") || !slices.Equal(c.Args, s.Command) {
			t.Errorf("%s runs %s %q, the compose file %s %q", component, c.Image, c.Args, s.Image, s.Command)
		}
		settings := w.settings()
		for variable := range s.Environment {
			switch variable {
			case "BUSBAR_GITHUB_TOKEN": // a file, where there is one
			case "PGPASSWORD": // in the URL
			case "OTEL_EXPORTER_OTLP_ENDPOINT": // traces.endpoint
			case "BUSBAR_DATABASE_URL", "BUSBAR_MODEL_API_KEY":
				if settings[variable+"_FILE"] == "" {
					t.Errorf("%s has no %s_FILE", component, variable)
				}
			default:
				if settings[variable] == "" {
					t.Errorf("%s has no %s, which it has in the compose file", component, variable)
				}
			}
		}
	}
	for component := range all {
		if !seen[component] {
			t.Errorf("the compose file has no %s", component)
		}
	}
}

// Each setting is one that a program reads, and no secret is the value of one.
func TestSettings(t *testing.T) {
	page := read(t, root+"/docs/reference/settings.md")
	each(t, func(t *testing.T, r release) {
		for _, w := range workloads(r) {
			for _, v := range w.pod.Spec.Containers[0].Env {
				name := v.Name
				if base, ok := strings.CutSuffix(name, "_FILE"); ok && !strings.Contains(page, "| `"+name+"`") {
					name = base // a secret's second variable
				}
				known := strings.Contains(page, "| `"+name+"` |") || strings.HasPrefix(name, "OTEL_") && strings.Contains(page, "`"+name+"`") ||
					name == "PGSSLMODE" || name == "PGSSLROOTCERT"
				if !known {
					t.Errorf("%s sets %s, which docs/reference/settings.md does not have", w.GetName(), v.Name)
				}
			}
		}
		if len(of[*core.Secret](r)) > 0 {
			t.Error("the chart writes a Secret")
		}
	})
}

// Pods are added by figures that programs have and the metrics adapter is told of.
func TestFigures(t *testing.T) {
	page := read(t, root+"/docs/reference/metrics.md")
	adapter := read(t, charts+"/values/prometheus-adapter.yaml")
	each(t, func(t *testing.T, r release) {
		for _, h := range of[*autoscaling.HorizontalPodAutoscaler](r) {
			of, figures, _ := strings.Cut(page, "## An instance of a service")
			if h.Name == "busbar-edge" {
				figures = of
			}
			for _, m := range h.Spec.Metrics {
				if m.Pods == nil {
					continue
				}
				if figure := m.Pods.Metric.Name; !strings.Contains(figures, "| `"+figure+"` | gauge |") || !strings.Contains(adapter, "'"+figure+"{") {
					t.Errorf("%s scales by %s, which is not of %s, or not of the adapter", h.Name, figure, h.Name)
				}
			}
		}
	})
}

// Development has the policy of the compose file.
func TestSamePolicy(t *testing.T) {
	t.Parallel()
	for _, c := range of[*core.ConfigMap](objects(t, valuesOf(t, environments["dev"]))) {
		want, got := parse(t, read(t, root+"/deploy/compose/access.yaml")), parse(t, c.Data["access.yaml"])
		wanted, _ := yaml.Marshal(want)
		have, _ := yaml.Marshal(got)
		if string(wanted) != string(have) {
			t.Errorf("deploy/helm/values/dev.yaml has another policy than deploy/compose/access.yaml:\n%s\n%s", have, wanted)
		}
		return
	}
	t.Error("development has no policy")
}

// The page makes a user of the bus for each workload, with the powers that it has in the compose
// file, and names each Secret and ConfigMap that the reader has to make.
func TestPage(t *testing.T) {
	t.Parallel()
	_, page, _ := strings.Cut(read(t, root+"/docs/guides/deploy.md"), "\n## Kubernetes\n")
	users := regexp.MustCompile(`--services[ =](\S+)`)
	said, in := users.FindStringSubmatch(page), users.FindStringSubmatch(read(t, compose))
	if said == nil || in == nil || said[1] != strings.TrimSuffix(in[1], "${BUSBAR_OWN_SERVICES:+,}${BUSBAR_OWN_SERVICES:-}") {
		t.Errorf("docs/guides/deploy.md has users %q, the compose file %q", said, in)
	}
	for _, w := range workloads(objects(t, nil)) {
		for _, v := range w.pod.Spec.Volumes {
			name := ""
			switch {
			case v.Secret != nil:
				name = v.Secret.SecretName
			case v.ConfigMap != nil:
				name = v.ConfigMap.Name
			}
			if strings.HasPrefix(name, "busbar-bus-") {
				name = "busbar-bus-$(" // one loop makes them all
			}
			if !strings.Contains(page, name) {
				t.Errorf("docs/guides/deploy.md does not say who makes %s", name)
			}
		}
	}
	for _, file := range environments {
		if strings.HasPrefix(file, charts) && !strings.Contains(page, strings.TrimPrefix(file, root+"/")) && !strings.Contains(page, filepath.Base(file)) {
			t.Errorf("docs/guides/deploy.md does not name %s", file)
		}
	}
}
