package core

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// NamespaceLimits has the rate and size limits of one namespace, for example results per second. They are rates and
// sizes of results and other data.
type NamespaceLimits struct {
	Namespace         string  // name of the namespace
	ResultsPerSec     float64 // results per second of all its nodes; zero: no limit
	NodeResultsPerSec float64 // results per second of each node; zero: the server's default
	ValuesPerSec      float64 // rows of value blocks of all its nodes, and samples of senders; zero: no limit
	NodeValuesPerSec  float64 // rows of value blocks of each node; zero: valuesPerResult times NodeResultsPerSec
	ReportsPerSec     float64 // reports and inventories of all its nodes; zero: no limit (also in the fields below)
	NodeReportsPerSec float64
	BytesPerSec       float64 // bytes of the messages of all its nodes
	NodeBytesPerSec   float64
	OutputBytes       int // longest output of one result; zero: the server's default
}

// LimiterConfig holds the settings of a Limiter.
type LimiterConfig struct {
	Namespace    func(model.NamespaceID) NamespaceLimits // read once a second
	Defaults     NamespaceLimits                         // NodeResultsPerSec and OutputBytes
	Burst        time.Duration                           // content of a full bucket, in time at its rate
	Monotonic    func() int64                            // ns of a monotonic clock
	Now          func() time.Time
	LimitReached *prometheus.CounterVec // by namespace and limit
	Turns        *WorkerShares          // nil: no node waits for others
}

// Limiter enforces the rate limits of all namespaces, for all sources of results together.
type Limiter struct {
	LimiterConfig
	mu         sync.Mutex
	namespaces map[model.NamespaceID]*namespaceBudget
	senders    map[bucketKey]*loadBuckets
	pruned     int64 // time of the last removal of full buckets, ns of the monotonic clock
}

// bucketKey is the key for the rate limits of a node, or of a user without a node. Its buckets outlive its
// sessions: a sender that connects again gets no new burst.
type bucketKey struct {
	node      model.NodeID // zero: a user
	namespace model.NamespaceID
	user      string
}

// buckets returns the rate limits (token buckets) of a node, or of a sender without a node.
func (l *Limiter) buckets(node *Node) *loadBuckets {
	key := bucketKey{node: node.ID}
	if node.ID == 0 {
		key = bucketKey{namespace: node.Namespace, user: node.Name}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.senders[key]
	if b == nil {
		if l.senders == nil {
			l.senders = map[bucketKey]*loadBuckets{}
		}
		b = &loadBuckets{}
		l.senders[key] = b
	}
	return b
}

// pruneLocked drops token buckets that are full again, at most once a minute. A missing bucket counts as full.
func (l *Limiter) pruneLocked(now int64) {
	if now-l.pruned < int64(time.Minute) {
		return
	}
	l.pruned = now
	for key, b := range l.senders {
		if b.lastSpend() < now-2*int64(l.Burst) {
			delete(l.senders, key)
		}
	}
}

// maxSenderDebt limits the waiting time that one request of a sender without a session may cause.
const maxSenderDebt = time.Minute

// capCost reduces a cost in tokens, so that no sender has to wait longer than maxSenderDebt. The rates tell the
// costs.
func capCost(n int, rates ...float64) int {
	for _, rate := range rates {
		if rate > 0 {
			n = min(n, max(1, int(rate*maxSenderDebt.Seconds())))
		}
	}
	return n
}

// ChargeSender counts the bytes of a request against the rate limits of a sender without a session. A user in
// debt is refused: the debt is returned, and nothing is charged.
func (l *Limiter) ChargeSender(namespace model.NamespaceID, user string, bytes int) Debt {
	var b Budget
	b.Open(l, &Node{Name: user, Namespace: namespace})
	debt := b.Debt(LoadBytes)
	debt.sender = debt.scope == "node"
	if debt.Wait > 0 {
		b.Hit(debt.Limit(), debt.Reason())
		return debt
	}
	limits := b.Limits()
	b.Spend(&TrafficCost{LoadBytes: capCost(bytes, limits.NodeBytesPerSec, limits.BytesPerSec)})
	return debt
}

// ChargeSamples counts samples that belong to no node against the namespace's limit for values. A namespace in
// debt is refused: the debt is returned, and nothing is charged.
func (l *Limiter) ChargeSamples(namespace model.NamespaceID, sender string, samples int) Debt {
	var b Budget
	b.Open(l, &Node{Name: sender, Namespace: namespace})
	rate := b.Limits().ValuesPerSec
	bucket, now := &b.namespace.loadBuckets[LoadValues], l.Monotonic()
	debt := Debt{Wait: bucket.Spend(0, rate, l.Burst, now), scope: "namespace", load: LoadValues, perSec: rate}
	if debt.Wait > 0 {
		b.Hit(debt.Limit(), debt.Reason())
		return debt
	}
	bucket.Spend(capCost(samples, rate), rate, l.Burst, now)
	return debt
}

// ChargeTriggerChange counts a changed trigger status like one result against the node's rate limit. The node
// pays for it with its next batch.
func (l *Limiter) ChargeTriggerChange(node model.NodeID) {
	l.buckets(&Node{ID: node})[LoadResults].Refund(-1)
}

// valuesPerResult is the number of values that costs as much as one result.
const valuesPerResult = 10

// namespaceBudget has the limits and token buckets of a namespace, and the limits reached so far.
type namespaceBudget struct {
	loadBuckets
	limits atomic.Pointer[NamespaceLimits]

	mu   sync.Mutex
	hits map[string]*LimitHit // by limit
}

// LimitHit describes a limit that a namespace has reached, with the number of refused or delayed results.
type LimitHit struct {
	Namespace string
	Limit     string // output, node_states, namespace_states, node_rate, namespace_rate, node_values_rate … (Debt.Limit), labels, facts, groups, node_passive
	Count     uint64 // number of refusals and delays since the server started
	Last      time.Time
	Node      string // of the last refusal or delay
	Reason    string // of the last refusal or delay
}

// RecentHits returns the limits that nodes have reached since a given time, newest first.
func (l *Limiter) RecentHits(since time.Time) (list []LimitHit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.namespaces {
		n.mu.Lock()
		for _, h := range n.hits {
			if h.Last.After(since) {
				list = append(list, *h)
			}
		}
		n.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b LimitHit) int { return b.Last.Compare(a.Last) })
	return list
}

// namespaceBudget returns the rate limits of a namespace with their token buckets. The first use creates them.
func (l *Limiter) namespaceBudget(id model.NamespaceID) *namespaceBudget {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.namespaces[id]
	if n == nil {
		if l.namespaces == nil {
			l.namespaces = map[model.NamespaceID]*namespaceBudget{}
		}
		n = &namespaceBudget{}
		n.limits.Store(l.readNamespaceLimits(id))
		l.namespaces[id] = n
	}
	return n
}

// readNamespaceLimits returns the limits of a namespace, with the server's defaults for zero values.
func (l *Limiter) readNamespaceLimits(id model.NamespaceID) *NamespaceLimits {
	limits := l.Namespace(id)
	if limits.NodeResultsPerSec == 0 {
		limits.NodeResultsPerSec = l.Defaults.NodeResultsPerSec
	}
	limits.NodeValuesPerSec = cmp.Or(limits.NodeValuesPerSec, valuesPerResult*limits.NodeResultsPerSec)
	if limits.OutputBytes == 0 {
		limits.OutputBytes = l.Defaults.OutputBytes
	}
	return &limits
}

// Limits returns the limits that apply to a namespace now.
func (l *Limiter) Limits(id model.NamespaceID) NamespaceLimits {
	return *l.namespaceBudget(id).limits.Load()
}

// Refresh reads the declared limits of all namespaces again. Call it once a second: a change by an operator is in
// force at once.
func (l *Limiter) Refresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pruneLocked(l.Monotonic())
	for id, n := range l.namespaces {
		if now := l.readNamespaceLimits(id); *now != *n.limits.Load() {
			n.limits.Store(now)
		}
	}
}

// Hit records that a node reached a limit while no session of the node was involved.
func (l *Limiter) Hit(node *Node, limit, reason string) {
	var b Budget
	b.Open(l, node)
	b.Hit(limit, reason)
}

// EventLimitName converts the code of a refused event to the name of the reached limit in metrics.
func EventLimitName(code string) string {
	if code == "namespace_limit" {
		return "namespace_states"
	}
	return "node_states"
}

// Budget has the rate limits (token buckets) of a session's node and namespace. Its methods Spend and Wait belong to
// the session's reader.
type Budget struct {
	limiter   *Limiter
	namespace *namespaceBudget
	node      string
	id        model.NodeID
	own       *loadBuckets
}

// Open gives a new session the rate limits of its node and namespace. Call it before any other method.
func (b *Budget) Open(l *Limiter, node *Node) {
	b.limiter, b.namespace, b.node, b.id, b.own = l, l.namespaceBudget(node.Namespace), node.Name, node.ID, l.buckets(node)
}

// Limits returns the limits of the session's namespace. The caller must not change them.
func (b *Budget) Limits() *NamespaceLimits { return b.namespace.limits.Load() }

// Spend counts a batch against the rate limits of node and namespace, and returns the necessary waiting time.
// Kinds of traffic without a cost do not count; a charge without any cost returns the waiting time over all
// kinds.
func (b *Budget) Spend(c *TrafficCost) Debt {
	var costs [loads]bool
	for i := range c {
		costs[i] = c[i] != 0 || *c == TrafficCost{}
	}
	costs[LoadSteps] = false // the node waits before the next batch with values: see Debt
	return b.spend(c, &costs)
}

// Debt returns how long the session must wait before sending more of the given kinds of traffic. The limits are
// those of its node and namespace.
func (b *Budget) Debt(kinds ...TrafficKind) Debt {
	var counts [loads]bool
	for _, kind := range kinds {
		counts[kind] = true
	}
	return b.spend(&TrafficCost{}, &counts)
}

// spend takes the tokens of a cost from the rate limits, and returns the longest waiting time.
func (b *Budget) spend(c *TrafficCost, counts *[loads]bool) Debt {
	limits, now, burst := b.Limits(), b.limiter.Monotonic(), b.limiter.Burst
	node, namespace := limits.nodeRates(), limits.namespaceRates()
	own, of := b.own.takeTokens(c, counts, node, burst, now)
	all, ofAll := b.namespace.takeTokens(c, counts, namespace, burst, now)
	if counts[LoadSteps] && b.limiter.Turns != nil {
		if turn := b.limiter.Turns.Wait(b.id); turn > max(own, all) {
			return Debt{Wait: turn, scope: "node", load: LoadSteps}
		}
	}
	if all > own {
		return Debt{Wait: all, scope: "namespace", load: ofAll, perSec: namespace[ofAll]}
	}
	return Debt{Wait: own, scope: "node", load: of, perSec: node[of]}
}

// SpendFrame charges a frame without results, such as a ping, to the node's rate limit.
func (b *Budget) SpendFrame() Debt {
	most := b.Limits().NodeResultsPerSec
	wait := b.own[LoadResults].Spend(1, most, b.limiter.Burst, b.limiter.Monotonic())
	return Debt{Wait: wait, scope: "node", load: LoadResults, perSec: most}
}

// Hit records that the session has reached a limit, for the list of reached limits.
func (b *Budget) Hit(limit, reason string) {
	name := b.Limits().Namespace
	b.limiter.LimitReached.WithLabelValues(name, limit).Inc()
	n := b.namespace
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hits == nil {
		n.hits = map[string]*LimitHit{}
	}
	h := n.hits[limit]
	if h == nil {
		h = &LimitHit{Limit: limit}
		n.hits[limit] = h
	}
	h.Count++
	h.Namespace, h.Last, h.Node, h.Reason = name, b.limiter.Now(), b.node, reason
}

// Exceed records that a session has exceeded a rate limit, for metrics and the list of reached limits.
func (b *Budget) Exceed(d *Debt) {
	b.Hit(d.Limit(), d.Reason())
	if d.load == LoadSteps {
		b.limiter.Turns.CountWait()
	}
}

// maxReaderPause limits one pause, so that a stopping server does not wait long.
const maxReaderPause = time.Second

// Wait lets the session's reader wait as long as the exceeded rate limits demand. The pause ends early with ctx or the
// session. When an operator changes a limit, the time is computed again, so that no reader waits for the old limit.
func (b *Budget) Wait(ctx context.Context, debt Debt, w *Window) {
	limits, wait := b.Limits(), debt.Wait
	for ; wait > 0; wait -= maxReaderPause {
		if now := b.Limits(); now != limits {
			limits = now
			if wait = b.Debt(debt.load).Wait; wait <= 0 {
				return
			}
		}
		if pause.For(ctx, min(wait, maxReaderPause)) != nil || w.Ended() {
			return
		}
	}
}

// TrafficKind is a kind of traffic with its own rate limit, such as results, values, reports or bytes.
type TrafficKind uint8

const (
	LoadResults TrafficKind = iota // results, keepalives, refused signals and other frames
	LoadValues                     // rows of value blocks, by their headers; metric points of Sensu; samples
	LoadReports                    // reports and inventories
	LoadBytes                      // bytes of batches, reports and alerts of any content
	LoadSteps                      // time of preprocessing steps and triggers: WorkerShares has the rate, and the node waits before it sends values
	loads
)

var loadNames = [loads]struct{ unit, limit string }{
	LoadResults: {"results", ""}, LoadValues: {"values", "values_"}, LoadReports: {"reports", "reports_"}, LoadBytes: {"bytes", "bytes_"},
	LoadSteps: {"seconds", "steps_"},
}

// TrafficCost is the cost of a batch in rate-limit tokens, one number for each kind of traffic.
type TrafficCost [loads]int

// loadBuckets has the token buckets of a node or namespace, one for each kind of traffic.
type loadBuckets [loads]TokenBucket

// loadRates has the rate limits of a node or namespace in tokens per second, by kind of traffic. A rate is in
// tokens per second, and zero means no limit.
type loadRates [loads]float64

// nodeRates returns the rate limits of one node.
func (l *NamespaceLimits) nodeRates() loadRates {
	return loadRates{l.NodeResultsPerSec, l.NodeValuesPerSec, l.NodeReportsPerSec, l.NodeBytesPerSec, 0}
}

// namespaceRates returns the rate limits of the whole namespace.
func (l *NamespaceLimits) namespaceRates() loadRates {
	return loadRates{l.ResultsPerSec, l.ValuesPerSec, l.ReportsPerSec, l.BytesPerSec, 0}
}

// takeTokens charges the cost of a batch to the rate limit of each kind of traffic. It returns the longest wait until
// a bucket's debt is paid, and the Load of that bucket.
func (b *loadBuckets) takeTokens(c *TrafficCost, counts *[loads]bool, r loadRates, burst time.Duration, now int64) (wait time.Duration, of TrafficKind) {
	for i := range b {
		if r[i] <= 0 || !counts[i] { // most have no limit
			continue
		}
		if w := b[i].Spend(c[i], r[i], burst, now); w > wait {
			wait, of = w, TrafficKind(i)
		}
	}
	return wait, of
}

// lastSpend returns the monotonic time (ns) at which any rate limit was last charged.
func (b *loadBuckets) lastSpend() (at int64) {
	for i := range b {
		at = max(at, b[i].LastSpend())
	}
	return at
}

// Debt is the time for which a session must pause because its agent exceeded a rate limit.
type Debt struct {
	Wait   time.Duration
	scope  string // node or namespace
	sender bool   // scope node: a user that sends alerts
	load   TrafficKind
	perSec float64
}

// Limit returns the name of the reached rate limit, as in metrics.
func (d *Debt) Limit() string { return d.scope + "_" + loadNames[d.load].limit + "rate" }

// Reason returns a sentence for users that names the exceeded rate limit.
func (d *Debt) Reason() string {
	if d.load == LoadSteps {
		return "steps and triggers of this node took more time than its share while other nodes waited. Find the item: muster debug values"
	}
	subject := map[string]string{"namespace": "the namespace", "node": "this node"}[d.scope]
	if d.sender {
		subject = "this sender"
	}
	return fmt.Sprintf("%s is at its limit of %s %s per second", subject, strconv.FormatFloat(d.perSec, 'f', -1, 64), loadNames[d.load].unit)
}

// TokenBucket is a rate limiter with tokens, whose number may become negative to delay later batches. It
// accepts a whole batch, and the session pauses until the bucket has refilled. So a limit never loses a result
// that an agent has spooled, and a node over its limit delays only itself.
type TokenBucket struct {
	mu     sync.Mutex
	tokens float64
	at     int64 // of tokens, ns of a monotonic clock; zero: full
}

// Spend subtracts n tokens from the bucket, and returns how long the caller must wait. The bucket refills at rate per
// second. The wait is zero if enough tokens were left.
func (b *TokenBucket) Spend(n int, rate float64, burst time.Duration, now int64) time.Duration {
	if rate <= 0 {
		return 0
	}
	full := rate * burst.Seconds()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == 0 {
		b.tokens = full
	} else {
		b.tokens = min(full, b.tokens+float64(now-b.at)/1e9*rate)
	}
	b.at = now
	b.tokens -= float64(n)
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / rate * float64(time.Second))
}

// Refund returns n tokens to the bucket.
func (b *TokenBucket) Refund(n int) {
	b.mu.Lock()
	b.tokens += float64(n)
	b.mu.Unlock()
}

// LastSpend returns when Spend was last called, as a monotonic time in nanoseconds.
func (b *TokenBucket) LastSpend() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}
