// Package chart compares the chart deploy/helm/busbar with the types of Kubernetes, with
// docker-compose.yml and with the pages of settings, metrics and limits. It needs no cluster:
// objects are decoded strictly into the types of Kubernetes, and Kubernetes's own code checks pods
// against the standard "restricted". It is in the module of tools, so that the product does not
// depend on Helm and Kubernetes. Start reading at render.
package chart

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	yamldocs "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	charts    = root + "/deploy/helm"
	name      = "busbar"
	namespace = "mcp"
)

// environments are the values that are rendered: the chart's own, each environment's, and
// everything that can be switched on.
var environments = map[string]string{
	"default": "", "dev": charts + "/values/dev.yaml", "staging": charts + "/values/staging.yaml", "production": charts + "/values/production.yaml",
	"everything": "testdata/everything.yaml",
}

// each runs a test on the objects of each environment.
func each(t *testing.T, test func(t *testing.T, r release)) {
	t.Parallel()
	for env, file := range environments {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			test(t, objects(t, valuesOf(t, file)))
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func valuesOf(t *testing.T, file string) map[string]any {
	t.Helper()
	if file == "" {
		return nil
	}
	return parse(t, read(t, file))
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	all := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// render is "helm template": the text of each template by its path.
func render(values map[string]any) (map[string]string, error) {
	chart, err := loader.Load(charts + "/busbar")
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: name, Namespace: namespace}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// strict decodes the kinds of Kubernetes, of Prometheus's operator and of the Gateway API, and
// refuses a field that a kind does not have, and one that is there twice.
var strict = func() runtime.Decoder {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme, gateway.Install} {
		if err := add(known); err != nil {
			panic(err)
		}
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, known, known, json.SerializerOptions{Yaml: true, Strict: true})
}()

// object is one that is installed.
type object interface {
	runtime.Object
	meta.Object
}

// release is everything that is installed.
type release []object

// objects returns the objects that the values give, each decoded strictly.
func objects(t *testing.T, values map[string]any) (all release) {
	t.Helper()
	rendered, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(rendered)) {
		if filepath.Ext(path) != ".yaml" {
			continue
		}
		for _, raw := range documents(t, rendered[path]) {
			o, _, err := strict.Decode(raw, nil, nil)
			if err != nil {
				t.Errorf("%s: %v in\n%s", path, err, raw)
				continue
			}
			all = append(all, o.(object))
		}
	}
	return all
}

func documents(t *testing.T, text string) (all [][]byte) {
	t.Helper()
	reader := yamldocs.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var content any
		if err := yaml.Unmarshal(raw, &content); err != nil {
			t.Fatalf("%v in\n%s", err, raw)
		}
		if content != nil {
			all = append(all, bytes.TrimSpace(raw))
		}
	}
}

// of are the objects of one kind.
func of[T object](r release) (all []T) {
	for _, o := range r {
		if one, ok := o.(T); ok {
			all = append(all, one)
		}
	}
	return all
}

// has reports whether there is an object of a kind and a name.
func has[T object](r release, name string) bool {
	return slices.ContainsFunc(of[T](r), func(o T) bool { return o.GetName() == name })
}

// workload is a Deployment or a StatefulSet.
type workload struct {
	object
	component string
	kind      string
	selector  *meta.LabelSelector
	pod       core.PodTemplateSpec
	replicas  *int32 // nil: somebody else says how many
	claims    []core.PersistentVolumeClaim
	service   string
}

func workloads(r release) (all []workload) {
	for _, d := range of[*apps.Deployment](r) {
		all = append(all, workload{object: d, kind: "Deployment", replicas: d.Spec.Replicas, selector: d.Spec.Selector, pod: d.Spec.Template})
	}
	for _, s := range of[*apps.StatefulSet](r) {
		all = append(all, workload{
			object: s, kind: "StatefulSet", replicas: s.Spec.Replicas, selector: s.Spec.Selector, pod: s.Spec.Template,
			claims: s.Spec.VolumeClaimTemplates, service: s.Spec.ServiceName,
		})
	}
	for i := range all {
		all[i].component = all[i].pod.Labels["app.kubernetes.io/component"]
	}
	return all
}

// settings are the variables of a workload's only container.
func (w workload) settings() map[string]string {
	all := map[string]string{}
	for _, v := range w.pod.Spec.Containers[0].Env {
		all[v.Name] = v.Value
	}
	return all
}

func (w workload) port(name string) int32 {
	for _, p := range w.pod.Spec.Containers[0].Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}
