package core

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/model"
)

// newLimiter returns a rate limiter and its clock, which the test sets. The limits are 100 bytes per second for
// each node and 150 for the namespace.
func newLimiter() (l *Limiter, now *time.Duration) {
	now = new(time.Duration)
	*now = time.Hour
	return &Limiter{LimiterConfig: LimiterConfig{
		Namespace: func(model.NamespaceID) NamespaceLimits {
			return NamespaceLimits{Namespace: "default", NodeBytesPerSec: 100, BytesPerSec: 150}
		},
		Burst: 10 * time.Second, Monotonic: func() int64 { return int64(*now) }, Now: time.Now,
		LimitReached: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "met"}, []string{"namespace", "limit"}),
	}}, now
}

// TestByteLimitOutlivesSession exceeds the byte limit of a node, and expects its next session to wait too. A
// reconnect gives no new burst.
func TestByteLimitOutlivesSession(t *testing.T) {
	l, now := newLimiter()
	node := &Node{ID: 7, Name: "web1", Namespace: 1}
	charge := func(bytes int) Debt {
		var b Budget
		b.Open(l, node)
		return b.Spend(&TrafficCost{LoadBytes: bytes})
	}
	if d := charge(1000); d.Wait != 0 {
		t.Errorf("the burst of 10 s is in debt: %+v", d)
	}
	if d := charge(500); d.Wait != 5*time.Second || d.Limit() != "node_bytes_rate" || d.Reason() != "this node is at its limit of 100 bytes per second" {
		t.Errorf("another session: %+v, %s: %s", d, d.Limit(), d.Reason())
	}
	*now += 5 * time.Second
	if d := charge(0); d.Wait != 0 {
		t.Errorf("the debt stays: %+v", d)
	}
	*now += time.Hour
	l.Refresh()
	if len(l.senders) != 0 {
		t.Errorf("%d full buckets stay", len(l.senders))
	}
}

// TestSenderAboveByteLimitIsRefused sends alert requests beyond a byte limit, and expects refusals. The limit is that of the
// user or namespace.
func TestSenderAboveByteLimitIsRefused(t *testing.T) {
	l, now := newLimiter()
	for i, c := range []struct {
		user  string
		bytes int
		limit string // of the debt; empty: the request is accepted
	}{
		{"prometheus", 900, ""}, {"prometheus", 200, ""}, {"prometheus", 1, "node_bytes_rate"},
		{"grafana", 1000, ""}, {"other", 1, "namespace_bytes_rate"},
	} {
		switch d := l.ChargeSender(1, c.user, c.bytes); {
		case c.limit == "" && d.Wait != 0, c.limit != "" && (d.Wait == 0 || d.Limit() != c.limit):
			t.Errorf("request %d of %s: %+v, want %q", i, c.user, d, c.limit)
		}
	}
	if hits := l.RecentHits(time.Time{}); len(hits) != 2 {
		t.Errorf("limits met: %+v", hits)
	}
	*now += 10 * time.Second
	if d := l.ChargeSender(1, "prometheus", 1); d.Wait != 0 {
		t.Errorf("after the debt: %+v", d)
	}
}

// TestSamplesAboveLimitAreRefused sends more samples than the value limit of a namespace allows, and expects a
// refusal. The values of the namespace's nodes count, too.
func TestSamplesAboveLimitAreRefused(t *testing.T) {
	l, now := newLimiter()
	l.Namespace = func(model.NamespaceID) NamespaceLimits {
		return NamespaceLimits{Namespace: "default", ValuesPerSec: 100}
	}
	var b Budget
	b.Open(l, &Node{ID: 7, Name: "web1", Namespace: 1})
	b.Spend(&TrafficCost{LoadValues: 500})
	if d := l.ChargeSamples(1, "prometheus", 700); d.Wait != 0 {
		t.Errorf("within the burst: %+v", d)
	}
	if d := l.ChargeSamples(1, "prometheus", 1); d.Wait != 2*time.Second || d.Limit() != "namespace_values_rate" || d.Reason() != "the namespace is at its limit of 100 values per second" {
		t.Errorf("200 values of debt: %+v, %s", d, d.Reason())
	}
	*now += 2 * time.Second
	if d := l.ChargeSamples(1, "prometheus", 1); d.Wait != 0 {
		t.Errorf("after the debt: %+v", d)
	}
	if hits := l.RecentHits(time.Time{}); len(hits) != 1 || hits[0].Node != "prometheus" {
		t.Errorf("limits met: %+v", hits)
	}
}

// TestExcessValuesDelayNoResults sends too many samples in one request, and expects check results to pass without
// delay. Results and alerts go on, values wait at most a minute.
func TestExcessValuesDelayNoResults(t *testing.T) {
	l, now := newLimiter()
	l.Namespace = func(model.NamespaceID) NamespaceLimits {
		return NamespaceLimits{Namespace: "default", ValuesPerSec: 1000, ResultsPerSec: 1000, BytesPerSec: 1e6}
	}
	var b Budget
	b.Open(l, &Node{ID: 7, Name: "web1", Namespace: 1})
	l.ChargeSamples(1, "prometheus", 300_000)
	if d := b.Spend(&TrafficCost{LoadResults: 1, LoadBytes: 100}); d.Wait != 0 {
		t.Errorf("a result: %+v", d)
	}
	if d := l.ChargeSender(1, "prometheus", 100); d.Wait != 0 {
		t.Errorf("an alert: %+v", d)
	}
	if d := b.Debt(LoadValues, LoadBytes); d.Wait != 50*time.Second || d.Limit() != "namespace_values_rate" {
		t.Errorf("values: %+v, %s", d, d.Limit())
	}
	if d := b.Spend(&TrafficCost{LoadValues: 1000, LoadResults: 1}); d.Wait != 51*time.Second {
		t.Errorf("a batch with values: %+v", d)
	}
	l.ChargeSender(1, "prometheus", 100e6)
	if d := b.Debt(LoadBytes); d.Wait != 50*time.Second+200*time.Microsecond {
		t.Errorf("bytes: %+v", d)
	}
	*now += time.Minute
	if d := l.ChargeSender(1, "prometheus", 100); d.Wait != 0 {
		t.Errorf("an alert after a minute: %+v", d)
	}
}

// TestValuesAndTriggerChangesAreCharged expects values and trigger changes to count against the rate limits of
// a node. It pays for the verdicts of its triggers as for results.
func TestValuesAndTriggerChangesAreCharged(t *testing.T) {
	l, _ := newLimiter()
	l.Defaults.NodeResultsPerSec = 5
	var b Budget
	b.Open(l, &Node{ID: 7, Name: "web1", Namespace: 1})
	if d := b.Spend(&TrafficCost{LoadValues: 550}); d.Wait != time.Second || d.Limit() != "node_values_rate" {
		t.Errorf("after 550 values: %+v, %s", d, d.Limit())
	}
	b.Spend(&TrafficCost{LoadResults: 40})
	for range 20 {
		l.ChargeTriggerChange(7)
	}
	if d := b.Spend(&TrafficCost{}); d.Wait != 2*time.Second || d.Limit() != "node_rate" {
		t.Errorf("after 40 results and 20 verdicts: %+v, %s", d, d.Limit())
	}
}
