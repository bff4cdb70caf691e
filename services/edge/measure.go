package edge

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// measure adds the metrics of an edge's parts to its own.
func (e *Edge) measure(cache *gateway.Cache, held *budget.Budget) {
	m := e.metrics
	m.Gauge("busbar_results_held_bytes", "Results that clients have not read yet.", func() float64 { return float64(held.Held()) })
	m.Gauge("busbar_results_expected_bytes", "Room reserved for large results of running calls, estimated from earlier results.", func() float64 { return float64(held.Expected()) })
	if l, ok := e.cfg.Limiter.(*gateway.InFlight); ok {
		m.Gauge("busbar_calls_in_flight", "Calls that this edge carries now.", func() float64 { return float64(l.Now()) })
	}
	m.Gauge("busbar_lasting_connections", "WebSockets, and streams of events for clients that wait.", func() float64 { return float64(e.connections.Open()) })
	m.Gauge("busbar_bus_connected", "1 while the bus is reachable.", func() float64 {
		if e.conn.Connected() {
			return 1
		}
		return 0
	})
	m.Gauge("busbar_clock_offset_seconds", "How far the clock of this edge is ahead of most of the bus.", func() float64 {
		off, _ := e.live.ClockOffset()
		return off.Seconds()
	})
	m.Counter("busbar_malformed_answers_total", "Answers of services that break the protocol, such as results that are not JSON objects.", func() float64 {
		return float64(e.conn.Malformed())
	})
	m.Gauge("busbar_services", "Services on the bus.", func() float64 { return float64(len(e.live.Services())) })
	m.Gauge("busbar_catalogue_problems", "Things in the services' catalogues that are not served, such as a name that two have.", func() float64 {
		return float64(len(e.live.Now().Problems()))
	})
	m.Gauge("busbar_catalogue_mended", "Places in schemas of tools where true or false, which clients reject, was replaced.", func() float64 {
		return float64(len(e.live.Now().Mended()))
	})
	m.Gauge("busbar_catalogue_conflicts", "Names that a service offers although they belong to another service.", func() float64 {
		return float64(len(e.live.Now().Conflicts()))
	})
	m.Gauge("busbar_bus_storage_away", "Buckets and streams of the bus that do not answer.", func() float64 { return float64(len(e.storage.Away())) })
	m.MustRegister(sizes{e.storage}, floods{e.live})
	m.Counter("busbar_cache_hits_total", "Calls answered from kept results.", func() float64 { hits, _ := cache.Counts(); return float64(hits) })
	m.Counter("busbar_cache_misses_total", "Calls of cacheable tools for which no result was kept.", func() float64 { _, misses := cache.Counts(); return float64(misses) })
	m.Gauge("busbar_cache_bytes", "Size of the kept results.", func() float64 { return float64(cache.Size()) })
	e.measurePolicy()
	if e.trail == nil {
		return
	}
	m.Gauge("busbar_audit_stream_bytes", "Size of the audit events on the bus that are not written down yet.", func() float64 { return float64(e.trail.Stats().Stream.Bytes) })
	m.Gauge("busbar_audit_stream_limit_bytes", "Size at which the bus takes no more audit events. Calls with effects are refused from 90 % of it.", func() float64 { return float64(e.trail.Stats().Stream.Limit) })
	m.Gauge("busbar_audit_stream_pending", "Messages with audit events on the bus that are not written down yet.", func() float64 { return float64(e.trail.Stats().Stream.Messages) })
	m.Gauge("busbar_audit_queued_events", "Audit events that wait in memory.", func() float64 { return float64(e.trail.Stats().Queued) })
	m.Gauge("busbar_audit_spooled_bytes", "Audit events that wait on disk, while the bus does not take them.", func() float64 { return float64(e.trail.Stats().Spooled) })
	m.Counter("busbar_audit_dropped_events_total", "Audit events that are lost.", func() float64 { return float64(e.trail.Stats().Dropped) })
}

// sizes shows how full the buckets and streams of the bus are, and where they are stored.
type sizes struct{ *storage.Storage }

var (
	storeBytes   = prometheus.NewDesc("busbar_bus_storage_bytes", "Size of a bucket or stream of the bus.", []string{"store"}, nil)
	storeLimit   = prometheus.NewDesc("busbar_bus_storage_limit_bytes", "Size that a bucket or stream may have.", []string{"store"}, nil)
	storeHolds   = prometheus.NewDesc("busbar_bus_storage_messages", "Messages in a bucket or stream of the bus.", []string{"store"}, nil)
	storeServers = prometheus.NewDesc("busbar_bus_storage_servers", "NATS servers that keep a bucket or stream.", []string{"store"}, nil)
	storeGone    = prometheus.NewDesc("busbar_bus_storage_servers_away", "NATS servers among them that do not answer.", []string{"store"}, nil)
	storeShare   = prometheus.NewDesc("busbar_bus_storage_share_bytes", "Bytes of a service in a bucket that services write, for the largest shares, when last read.", []string{"store", "service"}, nil)
)

// Describe implements prometheus.Collector.
func (sizes) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storeBytes, storeLimit, storeHolds, storeServers, storeGone, storeShare} {
		all <- d
	}
}

// Collect implements prometheus.Collector.
func (s sizes) Collect(all chan<- prometheus.Metric) {
	for _, size := range s.Sizes() {
		show := func(d *prometheus.Desc, value int64) {
			all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), size.Name)
		}
		show(storeHolds, int64(size.Messages))
		show(storeBytes, size.Bytes)
		show(storeLimit, size.Limit)
		show(storeServers, int64(size.Servers))
		show(storeGone, int64(size.Away))
	}
	for name, shares := range s.Shares(sharesShown) {
		for _, one := range shares {
			all <- prometheus.MustNewConstMetric(storeShare, prometheus.GaugeValue, float64(one.Bytes), name, one.Service)
		}
	}
}

// sharesShown is how many services of a bucket have a metric of their own.
const sharesShown = 10

// floods shows which services announce more instances than an edge keeps. A metric
// without a name shows whether there are more services than that.
type floods struct{ *catalogue.Live }

var ignored = prometheus.NewDesc("busbar_registry_ignored_announcements", "Announcements since the edge started of instances beyond those that it keeps of a service; without the label, of services beyond those that it keeps.", []string{"service"}, nil)

// Describe implements prometheus.Collector.
func (floods) Describe(all chan<- *prometheus.Desc) { all <- ignored }

// Collect implements prometheus.Collector.
func (f floods) Collect(all chan<- prometheus.Metric) {
	for _, one := range f.Overflows() {
		all <- prometheus.MustNewConstMetric(ignored, prometheus.GaugeValue, float64(one.Refused), one.Service)
	}
}
