package chart

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// place is a peer of a pod: pods of a namespace, or an address outside.
type place struct {
	namespace string
	labels    labels.Set
	outside   bool
}

var (
	dns        = place{"kube-system", labels.Set{"k8s-app": "kube-dns"}, false}
	nats       = place{namespace, labels.Set{"app.kubernetes.io/name": "nats"}, false}
	database   = place{namespace, labels.Set{"cnpg.io/cluster": "postgres"}, false}
	monitors   = place{"monitoring", labels.Set{"app": "any"}, false}
	ingresses  = place{"ingress-nginx", labels.Set{"app": "any"}, false}
	neighbours = place{namespace, labels.Set{"app": "neighbour"}, false}
	elsewhere  = place{"other", labels.Set{"app": "any"}, false}
	internet   = place{outside: true}
)

// is reports whether a peer of a policy is a place.
func (p place) is(t *testing.T, peer networking.NetworkPolicyPeer) bool {
	t.Helper()
	if peer.IPBlock != nil {
		return p.outside && peer.IPBlock.CIDR == "0.0.0.0/0"
	}
	if p.outside {
		return false
	}
	if peer.NamespaceSelector == nil && p.namespace != namespace {
		return false
	}
	if peer.NamespaceSelector != nil && !selects(t, peer.NamespaceSelector).Matches(labels.Set{"kubernetes.io/metadata.name": p.namespace}) {
		return false
	}
	return peer.PodSelector == nil || selects(t, peer.PodSelector).Matches(p.labels)
}

// lets reports whether a pod may connect to a place, or a place to the pod where in says so,
// as Kubernetes decides it: everything, unless a policy selects the pod; then what one of
// them says.
func lets(t *testing.T, r release, w workload, in bool, p place, port int32) bool {
	t.Helper()
	selected := false
	for _, n := range of[*networking.NetworkPolicy](r) {
		direction := networking.PolicyTypeEgress
		if in {
			direction = networking.PolicyTypeIngress
		}
		if !selects(t, &n.Spec.PodSelector).Matches(labels.Set(w.pod.Labels)) || !slices.Contains(n.Spec.PolicyTypes, direction) {
			continue
		}
		selected = true
		type rule struct {
			peers []networking.NetworkPolicyPeer
			ports []networking.NetworkPolicyPort
		}
		var rules []rule
		for _, one := range n.Spec.Ingress {
			if in {
				rules = append(rules, rule{one.From, one.Ports})
			}
		}
		for _, one := range n.Spec.Egress {
			if !in {
				rules = append(rules, rule{one.To, one.Ports})
			}
		}
		for _, one := range rules {
			if len(one.peers) == 0 || len(one.ports) == 0 {
				t.Errorf("%s has a rule for everybody", n.Name)
			}
			peer := slices.ContainsFunc(one.peers, func(x networking.NetworkPolicyPeer) bool { return p.is(t, x) })
			if peer && slices.ContainsFunc(one.ports, func(x networking.NetworkPolicyPort) bool {
				return number(w, *x.Port) == port && *x.Protocol != core.ProtocolUDP
			}) {
				return true
			}
		}
	}
	return !selected
}

func number(w workload, port intstr.IntOrString) int32 {
	if port.Type == intstr.String {
		return w.port(port.StrVal)
	}
	return port.IntVal
}

// A pod reaches what its settings name and nothing else, and is reached only by pods that have to.
func TestNetwork(t *testing.T) {
	each(t, func(t *testing.T, r release) {
		for _, w := range workloads(r) {
			set := w.settings()
			edge := w.component == "edge"
			_, stores := set["BUSBAR_DATABASE_URL_FILE"]
			traces := false
			if u, err := url.Parse(set["OTEL_EXPORTER_OTLP_ENDPOINT"]); err == nil {
				traces = u.Port() == "4318"
			}
			check := func(what string, in bool, p place, port int32, want bool) {
				t.Helper()
				if got := lets(t, r, w, in, p, port); got != want {
					t.Errorf("%s, %s: let through: %t, want %t", w.GetName(), what, got, want)
				}
			}
			check("to DNS", false, dns, 53, true)
			check("to NATS", false, nats, 4222, strings.Contains(set["BUSBAR_NATS"], ".nats-headless:4222"))
			check("to NATS's monitor", false, nats, 8222, false)
			check("to the database", false, database, 5432, stores)
			check("to the collector", false, monitors, 4318, traces)
			check("to a neighbour", false, neighbours, 80, false)
			check("to another namespace", false, elsewhere, 443, false)
			outside := slices.Contains([]string{"github", "weather", "model"}, w.component) || edge && set["BUSBAR_TRACES_PER_SECOND"] != ""
			check("to the internet", false, internet, 443, outside)
			check("to the internet without TLS", false, internet, 80, false)
			check("from Prometheus", true, monitors, w.port("probe"), true)
			check("from a neighbour", true, neighbours, w.port("probe"), false)
			if edge {
				check("from the ingress", true, ingresses, 8000, true)
				check("from the ingress to the probe", true, ingresses, w.port("probe"), false)
				check("from another namespace", true, elsewhere, 8000, strings.HasSuffix(t.Name(), "/dev"))
			}
		}
	})
}

// Programs have each NATS server of the values for NATS's chart by its own name: that chart
// does not have servers announce each other, and leaving one that hangs takes another one.
func TestServersOfNATS(t *testing.T) {
	t.Parallel()
	var cluster struct {
		Config struct{ Cluster struct{ Replicas int } }
	}
	if err := yaml.Unmarshal([]byte(read(t, charts+"/values/nats.yaml")), &cluster); err != nil {
		t.Fatal(err)
	}
	guide := read(t, root+"/docs/guides/deploy.md")
	var want []string
	for i := range cluster.Config.Cluster.Replicas {
		host := fmt.Sprintf("nats-%d.nats-headless", i)
		want = append(want, "tls://"+host+":4222")
		if !strings.Contains(guide, ","+host) {
			t.Errorf("docs/guides/deploy.md makes no certificate for %s", host)
		}
	}
	if len(want) < 3 {
		t.Fatalf("the cluster has %d servers", len(want))
	}
	for _, w := range workloads(objects(t, valuesOf(t, ""))) {
		if got := strings.Split(w.settings()["BUSBAR_NATS"], ","); !slices.Equal(got, want) {
			t.Errorf("%s joins %q, of %q", w.GetName(), got, want)
		}
	}
}
