package chart

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// oldest is the minor version of the first Kubernetes that the chart accepts.
func oldest(t *testing.T) int {
	t.Helper()
	return minor(t, charts+"/busbar/Chart.yaml", `(?m)^kubeVersion: ">=1\.(\d+)\.0-0"`)
}

// newest is the minor version of Kubernetes that has the types used for decoding.
func newest(t *testing.T) int {
	t.Helper()
	return minor(t, "../go.mod", `(?m)^\tk8s\.io/api v0\.(\d+)\.`)
}

func minor(t *testing.T, file, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file))
	if m == nil {
		t.Fatalf("%s does not match %s", file, pattern)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every API is in the oldest Kubernetes that the chart accepts, and none is gone in the newest.
func TestVersions(t *testing.T) {
	first, last := oldest(t), newest(t)
	each(t, func(t *testing.T, r release) {
		for _, o := range r {
			if added, ok := o.(interface{ APILifecycleIntroduced() (int, int) }); ok {
				if _, in := added.APILifecycleIntroduced(); in > first {
					t.Errorf("%T %s came with Kubernetes 1.%d; the chart accepts 1.%d", o, o.GetName(), in, first)
				}
			}
			if gone, ok := o.(interface{ APILifecycleRemoved() (int, int) }); ok {
				if _, in := gone.APILifecycleRemoved(); in <= last {
					t.Errorf("%T %s is gone with Kubernetes 1.%d", o, o.GetName(), in)
				}
			}
		}
	})
}

// The page says which versions these tests are of: those that go.mod and the chart name.
func TestPageSaysVersions(t *testing.T) {
	t.Parallel()
	page, modules := read(t, root+"/docs/guides/deploy.md"), read(t, "../go.mod")
	rows := map[string]string{"Kubernetes": fmt.Sprintf("1.%d to 1.%d", oldest(t), newest(t))}
	for row, module := range map[string]string{
		"Helm": "helm.sh/helm/v3", "Gateway API": "sigs.k8s.io/gateway-api",
		"Prometheus's operator": "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring",
	} {
		_, rest, found := strings.Cut(modules, "\t"+module+" v")
		if !found {
			t.Fatalf("go.mod does not require %s", module)
		}
		rows[row], _, _ = strings.Cut(rest, "\n")
	}
	for row, version := range rows {
		if want := "| " + row + " | " + version + " |"; !strings.Contains(page, want) {
			t.Errorf("docs/guides/deploy.md lacks %q", want)
		}
	}
}
